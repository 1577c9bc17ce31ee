package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onced/onced/chaos"
)

func (a *app) chaosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "chaos",
		Short:   "Prove it: faults on real nodes, every answer checked",
		Example: "  onced chaos faults\n  onced chaos run --for 60s --faults basic",
		Args:    cobra.ArbitraryArgs,
		RunE:    groupRun,
	}
	cmd.AddCommand(a.chaosRunCommand(), a.chaosDamageCommand(), a.chaosFaultsCommand(), a.chaosCheckCommand(), a.chaosLedgerCommand())
	return cmd
}

// chaosOptions are the flags of chaos run.
type chaosOptions struct {
	nodes    int
	length   time.Duration
	faults   string
	workload string
	clients  int
	seed     uint64
	dir      string
	keep     bool
	format   string
	into     string
	commit   string
	atLeast  int
	within   time.Duration
}

func (a *app) chaosRunCommand() *cobra.Command {
	var o chaosOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run nodes, a workload and faults, and give the verdict",
		Long: `Start nodes of this binary on this machine, let clients and faults at them, and
hold every answer against the contract: each key's calls must be linearizable,
log time must not fall, an order must be filled once, every acknowledged
outcome must be replayed the same by every node, and all states must agree. A
fault that had no effect fails the run, too.

The last line is the verdict. The exit code is 0 only if it begins with PASS. A
run that fails keeps its history, its logs and, when no order of calls explains
the answers, a picture; and says what to type to run it again.`,
		Example: `  onced chaos run --for 60s --faults basic --workload order-once
  onced chaos run --for 5m --faults kill,pause,isolate --workload mixed --seed 7 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.seed = uint64(rand.Uint32())
			}
			return a.chaosRun(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.nodes, "nodes", 3, "nodes to run, 1 to 9")
	f.DurationVar(&o.length, "for", time.Minute, "how long load and faults go on")
	f.IntVar(&o.atLeast, "at-least", 0, "faults to inject, however long it takes, up to three times --for")
	f.StringVar(&o.faults, "faults", "basic", "faults to inject, by name, or a set: basic, links, net, disk, power, damage, limit, clock (see: onced chaos faults)")
	f.StringVar(&o.workload, "workload", chaos.OrderOnce, "what clients do: "+strings.Join(chaos.Workloads, " or "))
	f.IntVar(&o.clients, "clients", 24, "clients at work at once")
	f.Uint64Var(&o.seed, "seed", 0, "of workload and faults (default: any)")
	f.StringVar(&o.dir, "dir", "", "where data, logs and history go (default: a directory that goes when the run passes)")
	f.BoolVar(&o.keep, "keep", false, "keep the directory when the run passes, too")
	f.StringVarP(&o.format, "output", "o", "text", "text, json, or md (the tables of docs/RELIABILITY.md)")
	f.StringVar(&o.commit, "commit", commitOf(buildVersion()), "commit of the source, for the tables")
	f.DurationVar(&o.within, "check-within", chaos.CheckTime, "how long the check may take; what it does not decide fails the run")
	f.StringVar(&o.into, "into", "", "FILE#BLOCK: put the tables of a run that passed into that block of a document")
	return cmd
}

// document puts the tables of a report where --into says.
func (o *chaosOptions) document(r *chaos.Report) error {
	file, block, ok := strings.Cut(o.into, "#")
	if !ok {
		return usagef("--into %s: use FILE#BLOCK", quote(o.into))
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return &exitError{exitUsage, "--into: " + err.Error(), ""}
	}
	text, err := chaos.IntoDocument(string(old), block, r.Markdown())
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		return &exitError{exitUsage, "--into: " + err.Error(), ""}
	}
	return nil
}

// command gives what runs o again.
func (o *chaosOptions) command() string {
	atLeast := ""
	if o.atLeast > 0 {
		atLeast = fmt.Sprintf(" --at-least %d", o.atLeast)
	}
	return fmt.Sprintf("onced chaos run --nodes %d --for %v%s --faults %s --workload %s --clients %d --seed %d",
		o.nodes, o.length, atLeast, o.faults, o.workload, o.clients, o.seed)
}

func (o *chaosOptions) check() ([]*chaos.Fault, error) {
	switch o.format {
	case "text", "json", "md":
	default:
		return nil, usagef("--output %s: use text, json or md", quote(o.format))
	}
	known := false
	for _, w := range chaos.Workloads {
		known = known || w == o.workload
	}
	switch {
	case o.nodes < 1 || o.nodes > 9:
		return nil, usagef("--nodes %d: use 1 to 9", o.nodes)
	case o.length <= 0:
		return nil, usagef("--for %v: use a duration above zero", o.length)
	case o.within <= 0:
		return nil, usagef("--check-within %v: use a duration above zero", o.within)
	case o.clients < 1:
		return nil, usagef("--clients %d: use 1 or more", o.clients)
	case !known:
		return nil, usagef("--workload %s: use %s", quote(o.workload), strings.Join(chaos.Workloads, " or "))
	}
	faults, err := chaos.ParseFaults(o.faults)
	if err != nil {
		return nil, usagef("--faults: %v", err)
	}
	return faults, nil
}

func (a *app) chaosRun(ctx context.Context, o chaosOptions) error {
	faults, err := o.check()
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return &exitError{exitInternal, "where is this binary? " + err.Error(), ""}
	}
	made := o.dir == ""
	if made {
		o.dir, err = os.MkdirTemp("", "onced-chaos-")
	} else {
		err = os.MkdirAll(o.dir, 0o700)
	}
	if err != nil {
		return &exitError{exitUsage, "--dir: " + err.Error(), ""}
	}
	report, err := chaos.Run(ctx, chaos.Config{
		Binary: binary, Nodes: o.nodes, For: o.length, AtLeast: o.atLeast, Faults: faults, Workload: o.workload,
		Clients: o.clients, Seed: o.seed, Dir: o.dir, Commit: o.commit, Command: o.command(),
		MovableClock: movableClock, CheckWithin: o.within, Progress: a.progress,
	})
	switch {
	case errors.Is(err, chaos.ErrInterrupted) || err != nil && ctx.Err() != nil:
		if made && !o.keep {
			_ = os.RemoveAll(o.dir)
			return &exitError{exitInterrupted, "interrupted; what was started is ended and removed", "--keep keeps the history next time: " + o.command() + " --keep"}
		}
		return &exitError{exitInterrupted, "interrupted; what was started is ended and removed", "check what there is: onced chaos check " + quote(o.dir)}
	case err != nil:
		return &exitError{exitInternal, "chaos: " + err.Error(), "look at " + o.dir}
	}
	for _, reason := range report.Reasons {
		fmt.Fprintf(a.stderr, "wrong: %s\n", reason)
	}
	if !report.Pass {
		fmt.Fprintf(a.stderr, "kept: %s\nagain: %s\n", o.dir, report.Command)
		if report.Linearizable == "undecided" {
			fmt.Fprintf(a.stderr, "to go on with the check: onced chaos check %s --within 1h\n", o.dir)
		}
	} else if made && !o.keep {
		_ = os.RemoveAll(o.dir)
	}
	if o.into != "" && report.Pass {
		if err := o.document(report); err != nil {
			return err
		}
	}
	switch o.format {
	case "json":
		err = a.printJSON(report)
		fmt.Fprintln(a.stderr, report.Verdict())
	case "md":
		fmt.Fprint(a.stdout, report.Markdown())
		fmt.Fprintln(a.stderr, report.Verdict())
	default:
		fmt.Fprintln(a.stdout, report.Verdict())
	}
	if !report.Pass {
		return &silentExit{exitInternal}
	}
	return err
}

// progress writes a line for people.
func (a *app) progress(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

// commitOf leaves of a version what names the source.
func commitOf(version string) string { return strings.TrimPrefix(version, "devel-") }

func (a *app) chaosFaultsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "faults",
		Short:   "List the faults that a run can inject",
		Example: "  onced chaos faults",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, f := range chaos.Faults() {
				root := ""
				if f.Root {
					root = " (root)"
				}
				fmt.Fprintf(a.stdout, "%-14s %s%s\n", f.Name, f.About, root)
			}
			return nil
		},
	}
}

func (a *app) chaosDamageCommand() *cobra.Command {
	c := chaos.DamageConfig{Progress: a.progress}
	cmd := &cobra.Command{
		Use:   "damage",
		Short: "Start a node on damaged data again and again: it must refuse, or answer as before",
		Long: `Fill the data directory of a cluster of one, then start a node on copies of it
that are damaged at one place each: bits flipped, or a file cut short, in the log
store, a snapshot, its description, or the identity. The node must end with a
sentence and exit code 70, 71 or 78, or answer for every key as it did before.`,
		Example: "  onced chaos damage --times 1000 --seed 7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Times < 1 {
				return usagef("--times %d: use 1 or more", c.Times)
			}
			if !cmd.Flags().Changed("seed") {
				c.Seed = uint64(rand.Uint32())
			}
			var err error
			if c.Binary, err = os.Executable(); err != nil {
				return &exitError{exitInternal, "where is this binary? " + err.Error(), ""}
			}
			if c.Dir, err = os.MkdirTemp("", "onced-chaos-"); err != nil {
				return &exitError{exitInternal, err.Error(), ""}
			}
			defer os.RemoveAll(c.Dir)
			report, err := chaos.DamageRun(cmd.Context(), c)
			switch {
			case errors.Is(err, chaos.ErrInterrupted):
				return &exitError{exitInterrupted, "interrupted", ""}
			case err != nil:
				return &exitError{exitInternal, "chaos: " + err.Error(), ""}
			}
			for _, w := range report.Wrong {
				fmt.Fprintf(a.stderr, "wrong: %s\n", w)
			}
			for _, s := range report.Silent {
				fmt.Fprintf(a.stderr, "silent: %s\n", s)
			}
			if !report.Pass() {
				fmt.Fprintf(a.stderr, "again: onced chaos damage --times %d --seed %d\n", c.Times, c.Seed)
			}
			fmt.Fprintln(a.stdout, report.Verdict())
			if !report.Pass() {
				return &silentExit{exitInternal}
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&c.Times, "times", 100, "data directories to damage")
	cmd.Flags().Uint64Var(&c.Seed, "seed", 0, "of the damage (default: any)")
	return cmd
}

func (a *app) chaosCheckCommand() *cobra.Command {
	limits := chaos.Limits{Progress: a.progress}
	cmd := &cobra.Command{
		Use:     "check DIRECTORY",
		Short:   "Check the history that a run has kept, again",
		Example: "  onced chaos check ./chaos-run\n  onced chaos check ./chaos-run --within 1h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := chaos.CheckAgain(cmd.Context(), args[0], limits)
			if errors.Is(err, chaos.ErrInterrupted) {
				return &exitError{exitInterrupted, err.Error(), ""}
			}
			if err != nil {
				return &exitError{exitUsage, err.Error(), ""}
			}
			for _, reason := range report.Reasons {
				fmt.Fprintf(a.stderr, "wrong: %s\n", reason)
			}
			fmt.Fprintln(a.stdout, report.Verdict())
			if !report.Pass {
				return &silentExit{exitInternal}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&limits.Within, "within", chaos.CheckTime, "how long it may take; what it does not decide fails the check")
	return cmd
}

func (a *app) chaosLedgerCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:    "ledger",
		Short:  "The exchange of a run, as a process of its own",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return &exitError{exitInternal, err.Error(), ""}
			}
			fmt.Fprintf(a.stdout, "listening on %s\n", l.Addr())
			if err := chaos.ServeLedger(cmd.Context(), l, file); err != nil {
				return &exitError{exitInternal, err.Error(), ""}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "where fills are kept")
	return cmd
}
