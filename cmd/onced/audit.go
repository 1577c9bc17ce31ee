package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// followEvery is how often audit --follow looks for news.
const followEvery = time.Second

func (a *app) auditCommand() *cobra.Command {
	var (
		client apiClient
		limit  int
		follow bool
	)
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Who freed, resolved, cancelled or configured what, when and why",
		Long: `Print the last entries of the audit trail, oldest first: who freed, resolved,
cancelled or configured what, when and why. The cluster keeps the last 10,000;
--follow prints each new one as it comes, to keep them elsewhere for longer.

With -o json: one object {"entries":[...]}; with --follow too, one line an entry.`,
		Example: `  onced audit
  onced audit --limit 1000 -o json | jq -r '.entries[] | select(.action=="resolve") | .actor'
  onced audit --follow -o json >>audit.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit %d: use 1 or more", limit)
			}
			t := &auditTrail{app: a, client: &client}
			if err := t.last(cmd.Context(), limit, follow); err != nil || !follow {
				return err
			}
			return t.follow(cmd.Context())
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().IntVar(&limit, "limit", 50, "the last so many entries")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each new entry until interrupted")
	client.addFlags(cmd)
	return cmd
}

// auditPage is a page of the trail, its entries as they were sent.
type auditPage struct {
	Entries    []jsontext.Value `json:"entries"`
	NextCursor string           `json:"nextCursor"`
}

type auditEntry struct {
	Sequence  uint64 `json:"sequence"`
	Time      string `json:"time"`
	Action    string `json:"action"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Actor     string `json:"actor"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
}

// auditTrail reads on from where it was.
type auditTrail struct {
	app    *app
	client *apiClient
	cursor uint64 // sequence of the last entry that was read
}

// next gives the entries after the cursor, at most one page, and moves it.
func (t *auditTrail) next(ctx context.Context) (page auditPage, err error) {
	query := url.Values{"limit": {strconv.Itoa(largestPage)}}
	if t.cursor > 0 {
		query.Set("cursor", strconv.FormatUint(t.cursor, 10))
	}
	r, err := t.client.do(ctx, t.app, "GET", "/v1/audit?"+query.Encode(), nil, 0)
	if err != nil {
		return page, err
	}
	if err := unmarshalReply(r, &page); err != nil {
		return page, err
	}
	if n := len(page.Entries); n > 0 {
		e, err := readAuditEntry(page.Entries[n-1])
		if err != nil {
			return page, err
		}
		t.cursor = e.Sequence
	}
	return page, nil
}

func readAuditEntry(raw jsontext.Value) (e auditEntry, err error) {
	return e, unmarshalReply(&reply{body: raw}, &e)
}

// last prints the last limit entries. The trail is read from its oldest entry
// on, since only that way its end is known; it is ten pages at most.
func (t *auditTrail) last(ctx context.Context, limit int, lines bool) error {
	entries := []jsontext.Value{}
	for {
		page, err := t.next(ctx)
		if err != nil {
			return t.app.callError(err, called{verb: "audit"}, t.client.out)
		}
		entries = append(entries, page.Entries...)
		entries = entries[max(0, len(entries)-limit):]
		if page.NextCursor == "" {
			break
		}
	}
	switch {
	case t.client.out.json && !lines:
		return t.app.printJSON(struct {
			Entries []jsontext.Value `json:"entries"`
		}{entries})
	case len(entries) == 0 && !lines:
		fmt.Fprintln(t.app.stderr, "the audit trail is empty")
		return nil
	}
	return t.print(entries, true)
}

// follow prints what is new until ctx ends, which is no failure. While no node
// answers it goes on asking: the trail is still there afterwards.
func (t *auditTrail) follow(ctx context.Context) error {
	look := time.NewTicker(followEvery)
	defer look.Stop()
	silent := false
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
		page, err := t.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && exitOf(err) == exitUnavailable:
			if !silent {
				fmt.Fprintf(t.app.stderr, "no answer, asking on: %v\n", err)
			}
			silent = true
			continue
		case err != nil:
			return t.app.callError(err, called{verb: "audit"}, t.client.out)
		}
		silent = false
		if err := t.print(page.Entries, false); err != nil {
			return err
		}
	}
}

func (t *auditTrail) print(entries []jsontext.Value, heading bool) error {
	if t.client.out.json {
		for _, e := range entries {
			if _, err := fmt.Fprintf(t.app.stdout, "%s\n", e); err != nil {
				return err
			}
		}
		return nil
	}
	var lines []string
	if heading {
		lines = append(lines, "TIME\tACTION\tNAMESPACE\tKEY\tACTOR\tREASON\tDETAIL")
	}
	for _, raw := range entries {
		e, err := readAuditEntry(raw)
		if err != nil {
			return err
		}
		lines = append(lines, strings.Join([]string{
			e.Time, e.Action, orDash(e.Namespace), orDash(e.Key), orDash(e.Actor), orDash(e.Reason), orDash(e.Detail),
		}, "\t"))
	}
	table(t.app.stdout, lines...)
	return nil
}
