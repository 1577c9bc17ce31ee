package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) extendCommand() *cobra.Command {
	var (
		client           apiClient
		namespace, token string
		lease            time.Duration
	)
	cmd := &cobra.Command{
		Use:   "extend KEY --token TOKEN",
		Short: "Renew the lease of a reserved key, because the work takes longer",
		Long: `Renew the lease of a reserved key from now. Extend before the old lease is over:
then nobody takes the holder for dead. An extension never shortens a lease, and
is cut to the namespace's maxLease.`,
		Example: `  onced extend order-0001 --token 1700000000000001
  onced extend order-0001 --token 1700000000000001 --lease 5m`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needToken(token, args[0]); err != nil {
				return err
			}
			body := idem.SettleRequest{Key: &args[0], Token: &token}
			if cmd.Flags().Changed("lease") {
				body.Lease = lease.String()
			}
			return a.settle(cmd, &client, called{verb: "extend", namespace: namespace, key: args[0]}, body, 0)
		},
	}
	cmd.Flags().SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&token, "token", "", "the token that reserve gave (required)")
	cmd.Flags().DurationVar(&lease, "lease", 0, "how long from now (default: the namespace's lease)")
	client.addFlags(cmd)
	return cmd
}
