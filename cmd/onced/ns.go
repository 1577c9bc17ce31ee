package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) nsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ns",
		Short:   "Namespaces and their policies",
		Example: "  onced ns ls\n  onced ns set payments --preset strict --ttl 72h",
		Args:    cobra.ArbitraryArgs,
		RunE:    groupRun,
	}
	cmd.AddCommand(a.nsLsCommand(), a.nsGetCommand(), a.nsSetCommand(), a.nsRmCommand())
	return cmd
}

func (a *app) nsLsCommand() *cobra.Command {
	var client apiClient
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the namespaces",
		Example: "  onced ns ls\n  onced ns ls -o json | jq -r '.namespaces[].name'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := client.do(cmd.Context(), a, "GET", "/v1/namespaces", nil, 0)
			if err != nil {
				return a.callError(err, called{verb: "ns ls"}, client.out)
			}
			if client.out.json {
				return a.printReply(r)
			}
			var list struct {
				Namespaces []idem.Namespace `json:"namespaces"`
			}
			if err := unmarshalReply(r, &list); err != nil {
				return err
			}
			lines := []string{"NAME\tTTL\tRETENTION\tLEASE\tON LEASE EXPIRY\tON EXPIRED\tON DUPLICATE\tMAX RECORDS\tVERSION"}
			for _, ns := range list.Namespaces {
				p := ns.Policy
				lines = append(lines, strings.Join([]string{
					ns.Name, text(p.TTL), text(p.Retention), text(p.Lease), text(p.OnLeaseExpiry),
					text(p.OnExpired), text(p.OnDuplicate), quota(p.MaxRecords), fmt.Sprint(ns.Version),
				}, "\t"))
			}
			table(a.stdout, lines...)
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	client.addFlags(cmd)
	return cmd
}

func (a *app) nsGetCommand() *cobra.Command {
	var client apiClient
	cmd := &cobra.Command{
		Use:     "get NAME",
		Short:   "Print the policy of a namespace",
		Example: "  onced ns get default\n  onced ns get payments -o json | jq .policy",
		Args:    oneNamespace,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := client.do(cmd.Context(), a, "GET", namespacePath(args[0]), nil, 0)
			if err != nil {
				return a.callError(err, called{verb: "ns get", namespace: args[0]}, client.out)
			}
			return a.printNamespace(r, "", client.out)
		},
	}
	cmd.Flags().SortFlags = false
	client.addFlags(cmd)
	return cmd
}

func (a *app) nsRmCommand() *cobra.Command {
	var (
		client apiClient
		force  bool
	)
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Retire a namespace; its name is never given out again",
		Long: `Retire a namespace. One that holds records is refused, unless --force drops them
all: their outcomes are replayed no more. The name is never given out again, so
that no old key can start anew under it; default cannot be retired.`,
		Example: "  onced ns rm trial\n  onced ns rm trial --force",
		Args:    oneNamespace,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := namespacePath(args[0])
			if force {
				path += "?force=true"
			}
			if _, err := client.do(cmd.Context(), a, "DELETE", path, nil, 0); err != nil {
				return a.callError(err, called{verb: "ns rm", namespace: args[0]}, client.out)
			}
			if client.out.json {
				return nil // the API answers 204
			}
			_, err := fmt.Fprintf(a.stdout, "retired  %s\n", args[0])
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&force, "force", false, "drop the records that it holds, their outcomes with them")
	client.addFlags(cmd)
	return cmd
}

// oneNamespace wants the name, and says so.
func oneNamespace(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return &exitError{exitUsage, "which NAME?", "list them with: onced ns ls"}
	case 1:
		return nil
	}
	return usagef("one NAME at a time, not %d", len(args))
}

// printNamespace prints what became of a namespace; did is "" for a look.
func (a *app) printNamespace(r *reply, did string, out output) error {
	if out.json {
		return a.printReply(r)
	}
	var ns idem.Namespace
	if err := unmarshalReply(r, &ns); err != nil {
		return err
	}
	if did == "" {
		did = "namespace"
	}
	p := ns.Policy
	redact := ""
	if p.Redact != nil {
		redact = map[bool]string{true: "on", false: "off"}[*p.Redact]
	}
	lines := []string{did + "\t" + ns.Name, "version\t" + fmt.Sprint(ns.Version), "created\t" + ns.CreatedAt, "changed\t" + ns.UpdatedAt}
	for _, l := range [][2]string{
		{"ttl", text(p.TTL)},
		{"retention", text(p.Retention)},
		{"lease", text(p.Lease)},
		{"maxLease", text(p.MaxLease)},
		{"onLeaseExpiry", text(p.OnLeaseExpiry)},
		{"onExpired", text(p.OnExpired)},
		{"onDuplicate", text(p.OnDuplicate)},
		{"redact", redact},
		{"maxResponseBytes", number(p.MaxResponseBytes)},
		{"maxRecords", quota(p.MaxRecords)},
		{"maxBytes", quota(p.MaxBytes)},
		{"fingerprintWindow", text(p.FingerprintWindow)},
	} {
		lines = append(lines, l[0]+"\t"+l[1])
	}
	table(a.stdout, lines...)
	return nil
}

// text, number and quota write members of a policy that a node of another
// version may leave out.
func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func quota(n *int64) string {
	if n != nil && *n == 0 {
		return "no limit"
	}
	return number(n)
}
