package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Look at the nodes",
		Example: "  onced node ls",
		Args:    cobra.ArbitraryArgs,
		RunE:    groupRun,
	}
	cmd.AddCommand(a.nodeLsCommand())
	return cmd
}

func (a *app) nodeLsCommand() *cobra.Command {
	var client apiClient
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the nodes, as one of them sees the others",
		Example: `  onced node ls
  onced node ls --endpoints http://127.0.0.1:4757
  onced node ls -o json | jq -r .leader`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := client.do(cmd.Context(), a, "GET", "/v1/cluster", nil, 0)
			if err != nil {
				return a.callError(err, called{verb: "ls"}, client.out)
			}
			if client.out.json {
				return a.printReply(r)
			}
			var status idem.ClusterStatus
			if err := unmarshalReply(r, &status); err != nil {
				return err
			}
			a.printNodes(status)
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	client.addFlags(cmd)
	return cmd
}

func (a *app) printNodes(s idem.ClusterStatus) {
	lines := []string{"NODE\tROLE\tHTTP\tPEERS\tAPPLIED\tLAG\tCONTACT\tVERSION"}
	for _, n := range s.Nodes {
		role := n.Role
		if !n.Voter {
			role += " (no vote)"
		}
		lines = append(lines, strings.Join([]string{
			n.ID, role, orDash(n.HTTPAddress), orDash(n.PeerAddress), fmt.Sprint(n.AppliedIndex),
			ifKnown(n.Lag, ""), ifKnown(n.LastContactMs, " ms"), orDash(n.Version),
		}, "\t"))
	}
	table(a.stdout, lines...)
	switch q := s.Quorum; {
	case s.Leader == nil:
		fmt.Fprintf(a.stdout, "\nno leader: %d of %d nodes reachable, %d needed; writes answer 503\n", q.Reachable, q.Voters, q.Needed)
	default:
		fmt.Fprintf(a.stdout, "\nleader %s, term %d; %d of %d nodes reachable, can lose %d more\n", *s.Leader, s.Term, q.Reachable, q.Voters, q.CanLose)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ifKnown writes a figure that is -1 when nobody knows it.
func ifKnown(n int64, unit string) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n) + unit
}
