package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

// policyFlag is one member of a policy as a flag.
type policyFlag struct {
	name  string
	usage string
	words []string                                 // what it may be, when that is a list
	set   func(p *idem.Policy, value string) error // value as typed
}

// policyText makes a flag whose value the API judges.
func policyText(name, usage string, member func(*idem.Policy) **string, words ...string) policyFlag {
	return policyFlag{name, usage, words, func(p *idem.Policy, value string) error {
		if len(words) > 0 && !slices.Contains(words, value) {
			hint := ""
			if near := nearest(value, words); near != "" {
				hint = fmt.Sprintf("did you mean: --%s %s", name, near)
			}
			return &exitError{exitUsage, fmt.Sprintf("--%s %s: use %s or %s", name, quote(value), words[0], words[1]), hint}
		}
		*member(p) = &value
		return nil
	}}
}

func policyNumber(name, usage string, member func(*idem.Policy) **int64) policyFlag {
	return policyFlag{name, usage, nil, func(p *idem.Policy, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return usagef("--%s %s: use a whole number, 0 or more", name, quote(value))
		}
		*member(p) = &n
		return nil
	}}
}

var policyFlags = []policyFlag{
	policyText("preset", "start from strict or gateway; the other flags go on top", func(p *idem.Policy) **string { return &p.Preset }, "strict", "gateway"),
	policyText("ttl", "how long an outcome is replayed after it is settled, as in 24h", func(p *idem.Policy) **string { return &p.TTL }),
	policyText("retention", "how long the verdict outlives the ttl", func(p *idem.Policy) **string { return &p.Retention }),
	policyText("lease", "how long a holder may work when it does not say", func(p *idem.Policy) **string { return &p.Lease }),
	policyText("max-lease", "longer leases are cut to it", func(p *idem.Policy) **string { return &p.MaxLease }),
	policyText("on-lease-expiry", "uncertain, or rerun: MAY RUN A KEY TWICE", func(p *idem.Policy) **string { return &p.OnLeaseExpiry }, "uncertain", "rerun"),
	policyText("on-expired", "reject, or rerun: an expired key is a new one", func(p *idem.Policy) **string { return &p.OnExpired }, "reject", "rerun"),
	policyText("on-duplicate", "replay the outcome, or reject", func(p *idem.Policy) **string { return &p.OnDuplicate }, "replay", "reject"),
	{"redact", "true or false: take secrets out of responses before they are stored", nil, func(p *idem.Policy, value string) error {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return usagef("--redact %s: use true or false", quote(value))
		}
		p.Redact = &on
		return nil
	}},
	policyNumber("max-response-bytes", "larger responses are not kept, their verdict is", func(p *idem.Policy) **int64 { return &p.MaxResponseBytes }),
	policyNumber("max-records", "no new claims beyond so many records; 0: no limit", func(p *idem.Policy) **int64 { return &p.MaxRecords }),
	policyNumber("max-bytes", "no new claims beyond so many bytes; 0: no limit", func(p *idem.Policy) **int64 { return &p.MaxBytes }),
	policyText("fingerprint-window", "how long after its settlement a trade is still the same trade", func(p *idem.Policy) **string { return &p.FingerprintWindow }),
}

func (a *app) nsSetCommand() *cobra.Command {
	var (
		client   apiClient
		policy   string
		expected uint64
	)
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Make a namespace, or change the named parts of its policy",
		Long: `Make a namespace, or change the named parts of its policy; the others stay as
they are. The policy is read first and changed only if it is still that one, so
two people cannot undo each other's change unseen (exit code 5 then).

A key keeps the ttl, retention and re-run rules that it was reserved under.

--on-lease-expiry rerun lets the next caller run when the holder's lease is over.
The holder may have run: that can be a double run. Keep uncertain, unless running
twice does no harm.`,
		Example: `  onced ns set payments                     # as strict, the preset of default
  onced ns set payments --ttl 72h --max-records 1000000
  onced ns set orders --preset gateway
  onced ns set orders --policy '{"ttl":"10m","redact":true}'
  onced ns set orders --policy @orders.json`,
		Args: oneNamespace,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			p, err := a.policyOf(cmd, policy)
			if err != nil {
				return err
			}
			body, err := marshalBody(p)
			if err != nil {
				return err
			}
			c := called{verb: "ns set", namespace: name}
			did := "changed"
			if !cmd.Flags().Changed("expected-version") {
				r, err := client.do(cmd.Context(), a, "GET", namespacePath(name), nil, 0)
				switch problem, _ := errors.AsType[*problemError](err); {
				case err == nil:
					var ns idem.Namespace
					if err := unmarshalReply(r, &ns); err != nil {
						return err
					}
					expected = ns.Version
				case problem != nil && problem.problem.Code == idem.CodeNamespaceNotFound:
				default:
					return a.callError(err, c, client.out)
				}
			}
			if expected > 0 {
				client.ifMatch = quote(strconv.FormatUint(expected, 10))
			}
			r, err := client.do(cmd.Context(), a, "PUT", namespacePath(name), body, 0)
			if err != nil {
				return a.callError(err, c, client.out)
			}
			if r.status == http.StatusCreated {
				did = "made"
			}
			return a.printNamespace(r, did, client.out)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, f := range policyFlags {
		flags.String(f.name, "", f.usage)
		if len(f.words) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(f.name, cobra.FixedCompletions(f.words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	flags.StringVar(&policy, "policy", "", "the same as JSON with the API's names: JSON, @FILE, or - for standard input")
	flags.Uint64Var(&expected, "expected-version", 0, "change only this version (default: the one that is read first)")
	client.addFlags(cmd)
	return cmd
}

// policyOf puts together --policy and the flags, which win.
func (a *app) policyOf(cmd *cobra.Command, text string) (*idem.Policy, error) {
	p := &idem.Policy{}
	if cmd.Flags().Changed("policy") {
		v, err := a.jsonArgument("--policy", text)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(v, p, json.RejectUnknownMembers(true)); err != nil {
			return nil, &exitError{exitUsage, fmt.Sprintf("--policy: %v", err), "see the members with: onced ns get default -o json"}
		}
	}
	for _, f := range policyFlags {
		if !cmd.Flags().Changed(f.name) {
			continue
		}
		value, _ := cmd.Flags().GetString(f.name)
		if err := f.set(p, value); err != nil {
			return nil, err
		}
	}
	return p, nil
}
