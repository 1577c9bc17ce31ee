package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Look at keys",
		Example: "  onced key get order-0001\n  onced key ls --status uncertain",
		Args:    cobra.ArbitraryArgs,
		RunE:    groupRun,
	}
	cmd.AddCommand(a.keyGetCommand(), a.keyLsCommand())
	return cmd
}

func (a *app) keyGetCommand() *cobra.Command {
	var (
		client    apiClient
		namespace string
	)
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print the record of a key",
		Example: `  onced key get order-0001
  onced key get order-0001 -n payments -o json`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := client.do(cmd.Context(), a, "GET", namespacePath(namespace, "records", args[0]), nil, 0)
			if err != nil {
				return a.callError(err, called{verb: "get", namespace: namespace, key: args[0]}, client.out)
			}
			if client.out.json {
				return a.printReply(r)
			}
			var record idem.Record
			if err := unmarshalReply(r, &record); err != nil {
				return err
			}
			table(a.stdout, append([]string{"key\t" + record.Key, "namespace\t" + record.Namespace}, recordLines(&record)...)...)
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	client.addFlags(cmd)
	return cmd
}

// recordLines describes a record for people: only what it has.
func recordLines(r *idem.Record) []string {
	var lines []string
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+"\t"+value)
		}
	}
	status := r.Status
	if r.Verdict != "" {
		status += ", was " + r.Verdict
	}
	if r.Takeover {
		status += ", may be taken over"
	}
	add("status", status)
	add("operation", r.Operation)
	add("error", r.ErrorCode)
	response := string(r.Response)
	if r.ResponseOmitted {
		response = "(too large, not kept)"
	}
	add("response", response)
	add("token", r.Token)
	add("attempt", fmt.Sprint(r.Attempt))
	add("version", fmt.Sprint(r.Version))
	add("created", r.CreatedAt)
	add("lease until", r.LeaseExpiresAt)
	add("settled", r.SettledAt)
	add("replayed until", r.ExpiresAt)
	add("kept until", r.RetainedUntil)
	if r.Replays > 0 {
		add("replays", fmt.Sprintf("%d, last %s", r.Replays, r.LastReplayedAt))
	}
	add("correlation", r.CorrelationID)
	return lines
}
