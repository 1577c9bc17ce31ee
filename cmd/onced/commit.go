package main

import (
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) commitCommand() *cobra.Command {
	var (
		client                     apiClient
		namespace, token, response string
	)
	cmd := &cobra.Command{
		Use:   "commit KEY --token TOKEN",
		Short: "Record that a reserved key ran, and what came of it",
		Long: `Record the outcome of a key that was reserved: every later reserve of it is told
this outcome. Repeating the same commit changes nothing.`,
		Example: `  onced commit order-0001 --token 1700000000000001 --response '{"id":7}'
  onced commit order-0001 --token 1700000000000001 --response @answer.json
  run-it | onced commit order-0001 --token 1700000000000001 --response -`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needToken(token, args[0]); err != nil {
				return err
			}
			body := idem.SettleRequest{Key: &args[0], Token: &token}
			if cmd.Flags().Changed("response") {
				var err error
				if body.Response, err = a.jsonArgument("--response", response); err != nil {
					return err
				}
			}
			return a.settle(cmd, &client, called{verb: "commit", namespace: namespace, key: args[0]}, body, 0)
		},
	}
	cmd.Flags().SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&token, "token", "", "the token that reserve gave (required)")
	cmd.Flags().StringVar(&response, "response", "", "the outcome: JSON, @FILE, or - for standard input")
	client.addFlags(cmd)
	return cmd
}
