package main

import (
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

var verdicts = []string{"committed", "failed", "not_applied"}

func (a *app) resolveCommand() *cobra.Command {
	var (
		client                              apiClient
		namespace, token, verdict, reason   string
		actor, response, errorCode          string
		responseFlag, codeFlag, verdictFlag = "response", "error-code", "verdict"
	)
	cmd := &cobra.Command{
		Use:   "resolve KEY --token TOKEN --verdict VERDICT --reason REASON --actor ACTOR",
		Short: "Settle an uncertain key for its holder, after looking what it did",
		Long: `Settle an uncertain key: its holder's lease is over and nobody heard of the
outcome. Look first what the attempt did, where it would have done it (the bank's
statement, the exchange's order list), then say so:

  committed     it ran, and this is its --response
  failed        it ran and failed for good, or must not run any more
  not_applied   it did not run AND WILL NOT: the key is free, the next caller runs

DANGER: not_applied is the one place where a person can cause a double run. The
holder must be dead, or cut off from what it would act on, and nothing that it
sent may still be under way. No software can know that for you. When in doubt,
wait, or use failed: nobody runs then.

The --token names the attempt that was judged; onced key get KEY shows it. If
another attempt has the key by now, the answer is idempotency_stale_token and
nothing changes. Every resolve is written to the audit trail.`,
		Example: `  onced key get order-0001                 # status uncertain, its token
  onced resolve order-0001 --token 1700000000000001 --verdict committed \
    --response '{"chargeId":"ch_81"}' --reason 'found in the statement' --actor alice
  onced resolve order-0001 --token 1700000000000001 --verdict failed \
    --error-code never_arrived --reason 'not in the statement after 2 days' --actor alice`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			switch {
			case token == "":
				return &exitError{exitUsage, "which --token? It names the attempt that was judged", "see it with: " + called{namespace: namespace}.command("key get "+args[0])}
			case verdict == "":
				return usagef("which --verdict? committed, failed or not_applied")
			case reason == "":
				return usagef("which --reason? The audit trail needs it")
			case actor == "":
				return usagef("which --actor? The audit trail needs to know who judged")
			}
			switch verdict {
			case "committed":
				if changed(codeFlag) {
					return usagef("--error-code goes with --verdict failed")
				}
			case "failed":
			case "not_applied":
				if changed(responseFlag) || changed(codeFlag) {
					return usagef("--verdict not_applied takes no --response and no --error-code: there was no outcome")
				}
			default:
				e := &exitError{code: exitUsage, msg: "--" + verdictFlag + " " + quote(verdict) + ": use committed, failed or not_applied"}
				if near := nearest(verdict, verdicts); near != "" {
					e.hint = "did you mean: --" + verdictFlag + " " + near
				}
				return e
			}
			body := idem.SettleRequest{
				Key: &args[0], Token: &token, Verdict: verdict, Reason: reason, Actor: actor, ErrorCode: errorCode,
			}
			if changed(responseFlag) {
				var err error
				if body.Response, err = a.jsonArgument("--response", response); err != nil {
					return err
				}
			}
			return a.settle(cmd, &client, called{verb: "resolve", namespace: namespace, key: args[0]}, body, 0)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	flags.StringVar(&token, "token", "", "of the attempt that was judged (required)")
	flags.StringVar(&verdict, verdictFlag, "", "committed, failed or not_applied (required)")
	flags.StringVar(&reason, "reason", "", "how it is known, for the audit trail (required)")
	flags.StringVar(&actor, "actor", "", "who judged, for the audit trail (required)")
	flags.StringVar(&response, responseFlag, "", "committed, failed: the outcome: JSON, @FILE, or - for standard input")
	flags.StringVar(&errorCode, codeFlag, "", "failed: why, one word for programs")
	client.addFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc(verdictFlag, cobra.FixedCompletions(verdicts, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
