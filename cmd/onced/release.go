package main

import (
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) releaseCommand() *cobra.Command {
	var (
		client                   apiClient
		namespace, token, reason string
	)
	cmd := &cobra.Command{
		Use:   "release KEY --token TOKEN",
		Short: "Give a reserved key back, because it surely did not run",
		Long: `Give a reserved key back: the next reserve of it is granted. Release only what
surely did not run. When in doubt (a time-out, a broken connection) do nothing:
the key becomes uncertain, and nobody runs it a second time.`,
		Example: `  onced release order-0001 --token 1700000000000001
  onced release order-0001 --token 1700000000000001 --reason 'the exchange was closed'`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needToken(token, args[0]); err != nil {
				return err
			}
			body := idem.SettleRequest{Key: &args[0], Token: &token, Reason: reason}
			return a.settle(cmd, &client, called{verb: "release", namespace: namespace, key: args[0]}, body, 0)
		},
	}
	cmd.Flags().SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&token, "token", "", "the token that reserve gave (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	client.addFlags(cmd)
	return cmd
}
