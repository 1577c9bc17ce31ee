package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) sweepCommand() *cobra.Command {
	var (
		client apiClient
		limit  uint32
	)
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove now what is due, instead of waiting for the leader's timer",
		Long: `Do one sweep now: outcomes past their ttl lose their response and keep their
verdict, and what is past its retention is removed. The leader does this by
itself; a sweep by hand is for who waits for room under a quota. An uncertain key
is never removed.`,
		Example: "  onced sweep\n  onced sweep --limit 10000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var body struct {
				Limit uint32 `json:"limit,omitzero"`
			}
			if cmd.Flags().Changed("limit") {
				if limit == 0 {
					return usagef("--limit 0: use 1 or more")
				}
				body.Limit = limit
			}
			b, err := marshalBody(body)
			if err != nil {
				return err
			}
			r, err := client.do(cmd.Context(), a, "POST", "/v1/sweep", b, 0)
			if err != nil {
				return a.callError(err, called{verb: "sweep"}, client.out)
			}
			if client.out.json {
				return a.printReply(r)
			}
			var swept struct {
				Dropped    int `json:"dropped"`
				Tombstoned int `json:"tombstoned"`
				Remaining  int `json:"remaining"`
			}
			if err := unmarshalReply(r, &swept); err != nil {
				return err
			}
			table(a.stdout,
				"removed\t"+fmt.Sprint(swept.Dropped),
				"verdict kept, response dropped\t"+fmt.Sprint(swept.Tombstoned),
				"still due\t"+fmt.Sprint(swept.Remaining))
			if swept.Remaining > 0 {
				_, err = fmt.Fprintln(a.stderr, "there is more: repeat, or --limit N (at most 10000)")
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Uint32Var(&limit, "limit", 0, "at most so many records (default 1000)")
	client.addFlags(cmd)
	return cmd
}
