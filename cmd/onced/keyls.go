package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

// largestPage is how many records or entries one call of the API gives.
const largestPage = 1000

var recordStatuses = []string{"pending", "uncertain", "committed", "failed", "released", "cancelled", "expired"}

func (a *app) keyLsCommand() *cobra.Command {
	var (
		client                    apiClient
		namespace, status, prefix string
		limit                     int
		all                       bool
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the keys of a namespace, in key order",
		Long: `List the keys of a namespace, in key order. Tokens are not listed: onced key get
shows that of one key.`,
		Example: `  onced key ls --status uncertain          # what a person has to settle
  onced key ls -n payments --prefix order- --limit 20
  onced key ls --all -o json | jq -r '.records[].key'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit %d: use 1 or more, or --all", limit)
			}
			if all {
				if cmd.Flags().Changed("limit") {
					return usagef("--limit and --all: give one of them")
				}
				limit = 1<<63 - 1
			}
			query := url.Values{}
			if status != "" {
				query.Set("status", status)
			}
			if prefix != "" {
				query.Set("prefix", prefix)
			}
			return a.listKeys(cmd.Context(), &client, namespace, query, limit)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	flags.StringVar(&status, "status", "", strings.Join(recordStatuses, ", "))
	flags.StringVar(&prefix, "prefix", "", "only keys that begin so")
	flags.IntVar(&limit, "limit", 100, "at most so many")
	flags.BoolVar(&all, "all", false, "all of them, however many")
	client.addFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(recordStatuses, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// recordPage is an idem.RecordList whose records stay as they were sent.
type recordPage struct {
	Records    []jsontext.Value `json:"records"`
	NextCursor string           `json:"nextCursor"`
}

// listKeys goes from page to page until limit records are printed or there are
// no more. Each page is printed as it comes: a namespace may hold millions.
func (a *app) listKeys(ctx context.Context, client *apiClient, namespace string, query url.Values, limit int) error {
	for printed := 0; ; {
		query.Set("limit", strconv.Itoa(min(limit-printed, largestPage)))
		r, err := client.do(ctx, a, "GET", namespacePath(namespace, "records")+"?"+query.Encode(), nil, 0)
		if err != nil {
			return a.callError(err, called{verb: "key ls", namespace: namespace}, client.out)
		}
		var page recordPage
		if err := unmarshalReply(r, &page); err != nil {
			return err
		}
		first := printed == 0
		printed += len(page.Records)
		last := page.NextCursor == "" || printed >= limit
		if client.out.json {
			err = a.printRecordsJSON(page, first, last)
		} else {
			err = a.printRecords(page, first)
		}
		if err != nil {
			return err
		}
		if last {
			switch {
			case client.out.json:
			case printed == 0:
				fmt.Fprintln(a.stderr, "no such keys")
			case page.NextCursor != "":
				fmt.Fprintln(a.stderr, "there are more: --limit N, or --all")
			}
			return nil
		}
		query.Set("cursor", page.NextCursor)
	}
}

// printRecords prints a page for people, the first one with a heading.
func (a *app) printRecords(page recordPage, first bool) error {
	var lines []string
	if first && len(page.Records) > 0 {
		lines = append(lines, "KEY\tSTATUS\tATTEMPT\tCREATED\tUNTIL\tREPLAYS\tOPERATION")
	}
	for _, raw := range page.Records {
		var record idem.Record
		if err := unmarshalReply(&reply{body: raw}, &record); err != nil {
			return err
		}
		lines = append(lines, recordRow(&record))
	}
	table(a.stdout, lines...)
	return nil
}

// printRecordsJSON prints a page's part of one idem.RecordList.
func (a *app) printRecordsJSON(page recordPage, first, last bool) error {
	var b bytes.Buffer
	if first {
		b.WriteString(`{"records":[`)
	}
	for i, raw := range page.Records {
		if i > 0 || !first {
			b.WriteByte(',')
		}
		b.Write(raw)
	}
	if last {
		b.WriteByte(']')
		if page.NextCursor != "" {
			fmt.Fprintf(&b, `,"nextCursor":%s`, quote(page.NextCursor)) // a key: printable ASCII
		}
		b.WriteString("}\n")
	}
	_, err := a.stdout.Write(b.Bytes())
	return err
}

// recordRow describes a record in one line. Until is when its status changes by
// itself: the lease ends, the outcome is replayed no more.
func recordRow(r *idem.Record) string {
	status := r.Status
	if r.Verdict != "" {
		status += " (" + r.Verdict + ")"
	}
	until := r.LeaseExpiresAt
	if until == "" {
		until = r.ExpiresAt
	}
	return strings.Join([]string{
		r.Key, status, fmt.Sprint(r.Attempt), r.CreatedAt, orDash(until), fmt.Sprint(r.Replays), orDash(r.Operation),
	}, "\t")
}
