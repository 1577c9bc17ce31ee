package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "onced",
		Short: "Decide once, for a whole cluster, who may run a key",
		Long: `onced keeps idempotency keys on a cluster of nodes: of all callers that
reserve a key, one may run; the others are told the outcome it commits.

Start with a whole cluster in one process, and try it from another terminal:

  onced dev
  onced reserve order-0001 --request '{"amount":10}'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          groupRun,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SuggestionsMinimumDistance = 2
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a cluster:"},
		&cobra.Group{ID: "use", Title: "Use it, through any node:"},
		&cobra.Group{ID: "tend", Title: "Look after it, through any node:"},
	)
	for _, cmd := range []*cobra.Command{a.devCommand(), a.serverCommand(), a.gatewayCommand()} {
		cmd.GroupID = "run"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{
		a.reserveCommand(), a.commitCommand(), a.failCommand(), a.releaseCommand(), a.extendCommand(), a.execCommand(), a.keyCommand(),
	} {
		cmd.GroupID = "use"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{
		a.cancelCommand(), a.resolveCommand(), a.nsCommand(), a.auditCommand(), a.sweepCommand(), a.nodeCommand(), a.checkCommand(),
	} {
		cmd.GroupID = "tend"
		root.AddCommand(cmd)
	}
	root.AddCommand(a.explainCommand(), a.configCommand(), a.versionCommand(), a.chaosCommand(), a.benchCommand())
	return root
}

// groupRun is what a command that only holds others does: help when nothing
// was asked for, an error naming what is near otherwise. (cobra by itself
// prints the help of a group and exits 0 for a misspelt subcommand.)
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	msg := "unknown command " + quote(args[0]) + " for " + quote(cmd.CommandPath())
	if near := nearest(args[0], known); near != "" {
		return &exitError{exitUsage, msg, "did you mean: " + cmd.CommandPath() + " " + near}
	}
	return usagef("%s", msg)
}

// getenv gives the value of an environment variable, "" when it is not set.
func (a *app) getenv(name string) string {
	for _, kv := range a.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}
