package main

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

const defaultNamespace = "default"

func (a *app) reserveCommand() *cobra.Command {
	var (
		client                          apiClient
		namespace, operation, request   string
		attemptID                       string
		lease, ttl, wait                time.Duration
		leaseFlag, ttlFlag, requestFlag = "lease", "ttl", "request"
	)
	cmd := &cobra.Command{
		Use:   "reserve KEY",
		Short: "Ask for the right to run a key, or for its outcome",
		Long: `Ask for the right to run a key. One caller is told "reserved" and gets a token:
it runs, and then commits or releases with that token. The others are told the
outcome ("replayed", exit code 0), or that the key is in flight (6), uncertain
(7), of another request (5) or expired (9).

The --attempt-id names this attempt; asking again with it gives the same grant,
so a lost answer does no harm. Left out, one is made and printed.`,
		Example: `  onced reserve order-0001 --request '{"amount":10}'
  onced reserve order-0001 --request @order.json --operation payments.create
  onced reserve order-0001 --wait 30s      # wait for the outcome of another
  onced reserve order-0001 -o json | jq -r .token`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if attemptID == "" {
				attemptID = rand.Text()
			}
			body := idem.ReserveRequest{Key: &key, Operation: operation, AttemptID: attemptID}
			var err error
			if cmd.Flags().Changed(requestFlag) {
				if body.Request, err = a.jsonArgument("--request", request); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed(leaseFlag) {
				body.Lease = lease.String()
			}
			if cmd.Flags().Changed(ttlFlag) {
				body.TTL = ttl.String()
			}
			if wait > 0 {
				body.Wait = wait.String()
			}
			return a.settle(cmd, &client, called{"reserve", namespace, key, attemptID}, body, wait)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addNamespaceFlag(cmd, &namespace)
	flags.StringVar(&operation, "operation", "", "the write's stable name; another one on the same key is a conflict")
	flags.StringVar(&request, requestFlag, "", "the request: JSON, @FILE, or - for standard input; only its digest is kept")
	flags.StringVar(&attemptID, "attempt-id", "", "names this attempt: 16 to 128 characters, random (default: one is made)")
	flags.DurationVar(&lease, leaseFlag, 0, "how long the holder may work (default: the namespace's)")
	flags.DurationVar(&ttl, ttlFlag, 0, "how long the outcome is replayed after it is settled (default: the namespace's)")
	flags.DurationVar(&wait, "wait", 0, "if the key is in flight, wait this long for its outcome, at most 60s")
	client.addFlags(cmd)
	return cmd
}

func addNamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", defaultNamespace, "namespace of the key")
}

// oneKey wants the key, and says so.
func oneKey(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("which KEY?")
	case 1:
		return nil
	}
	return usagef("one KEY at a time, not %d: put JSON in quotes", len(args))
}

// namespacePath gives the API's path of something in a namespace.
func namespacePath(namespace string, parts ...string) string {
	path := "/v1/namespaces/" + url.PathEscape(namespace)
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// settle sends a call of the data plane and prints its answer.
func (a *app) settle(cmd *cobra.Command, client *apiClient, c called, body any, wait time.Duration) error {
	b, err := marshalBody(body)
	if err != nil {
		return err
	}
	r, err := client.do(cmd.Context(), a, "POST", namespacePath(c.namespace, c.verb), b, wait)
	if err != nil {
		return a.callError(err, c, client.out)
	}
	return a.printAnswer(r, c, client.out)
}

// printAnswer prints the answer to a call of the data plane.
func (a *app) printAnswer(r *reply, c called, out output) error {
	if out.json {
		return a.printReply(r)
	}
	var answer idem.Answer
	if err := unmarshalReply(r, &answer); err != nil {
		return err
	}
	key := c.key
	if answer.Record != nil {
		key = answer.Record.Key
	}
	lines := []string{answer.Outcome + "\t" + key}
	if answer.Outcome == "reserved" {
		lines = append(lines, "token\t"+answer.Token)
		attempt := fmt.Sprintf("attempt\t%d, id %s", answer.Attempt, answer.AttemptID)
		if answer.Resumed != nil && *answer.Resumed {
			attempt += " (resumed)"
		}
		lines = append(lines, attempt, "lease\t"+answer.LeaseRemaining)
		if p := answer.PreviousAttempt; p != nil {
			lines = append(lines, fmt.Sprintf("before\tattempt %d %s, claimed %s: look whether it ran", p.Attempt, p.Ended, p.ClaimedAt))
		}
		table(a.stdout, lines...)
		fmt.Fprintf(a.stdout, "\nrun it, then:\n  %s\n  %s\n",
			c.command(fmt.Sprintf("commit %s --token %s --response '{\"ok\":true}'", key, answer.Token)),
			c.command(fmt.Sprintf("release %s --token %s", key, answer.Token)))
		return nil
	}
	if answer.LeaseRemaining != "" {
		lines = append(lines, "lease\t"+answer.LeaseRemaining)
	}
	if answer.Record != nil {
		lines = append(lines, recordLines(answer.Record)...)
	}
	table(a.stdout, lines...)
	return nil
}
