package main

import (
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) failCommand() *cobra.Command {
	var (
		client                                apiClient
		namespace, token, errorCode, response string
	)
	cmd := &cobra.Command{
		Use:   "fail KEY --token TOKEN --error-code CODE",
		Short: "Record that a reserved key ran and failed for good",
		Long: `Record that a key ran and failed for good: every later reserve of it is told
this failure, and nobody runs it again. Repeating the same fail changes nothing.

What surely did not start is released instead. What may have run (a time-out
after the order was sent) is neither: leave it, and it becomes uncertain.`,
		Example: `  onced fail order-0001 --token 1700000000000001 --error-code card_declined
  onced fail order-0001 --token 1700000000000001 --error-code card_declined --response @answer.json`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needToken(token, args[0]); err != nil {
				return err
			}
			if errorCode == "" {
				return usagef("which --error-code? It names why the key failed, for programs: --error-code card_declined")
			}
			body := idem.SettleRequest{Key: &args[0], Token: &token, ErrorCode: errorCode}
			if cmd.Flags().Changed("response") {
				var err error
				if body.Response, err = a.jsonArgument("--response", response); err != nil {
					return err
				}
			}
			return a.settle(cmd, &client, called{verb: "fail", namespace: namespace, key: args[0]}, body, 0)
		},
	}
	cmd.Flags().SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&token, "token", "", "the token that reserve gave (required)")
	cmd.Flags().StringVar(&errorCode, "error-code", "", "why it failed, one word for programs (required)")
	cmd.Flags().StringVar(&response, "response", "", "what the failure answered: JSON, @FILE, or - for standard input")
	client.addFlags(cmd)
	return cmd
}

// needToken asks for the token where only the holder may go on.
func needToken(token, key string) error {
	if token == "" {
		return usagef("which --token? It is in the answer to: onced reserve %s", key)
	}
	return nil
}
