package main

import (
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) cancelCommand() *cobra.Command {
	var (
		client            apiClient
		namespace, reason string
	)
	cmd := &cobra.Command{
		Use:   "cancel KEY --reason REASON",
		Short: "Forbid a key that nobody holds: it can never start",
		Long: `Forbid a key: a request that may still arrive with it can never start. Only a key
that nobody has reserved, or that was given back, can be cancelled; what is in
flight, uncertain or settled is told as such and stays as it is. The cancel is
written to the audit trail.`,
		Example: `  onced cancel order-0001 --reason 'the customer called the order off'`,
		Args:    oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usagef("which --reason? The audit trail needs it")
			}
			body := idem.SettleRequest{Key: &args[0], Reason: reason}
			return a.settle(cmd, &client, called{verb: "cancel", namespace: namespace, key: args[0]}, body, 0)
		},
	}
	cmd.Flags().SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail (required)")
	client.addFlags(cmd)
	return cmd
}
