package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/onced/onced/bench"
	"github.com/onced/onced/idem"
)

// maxBenchClients bounds the clients: each has a connection and a histogram.
const maxBenchClients = 10_000

// benchOptions are the flags of bench.
type benchOptions struct {
	workload  string
	clients   int
	rateText  string
	length    time.Duration
	warmup    time.Duration
	namespace string
	valueSize int
	batchSize int
	replay    bool
	mixText   string
	keys      int
	spread    string
	beside    int
	compare   string
	sloText   string
	client    apiClient

	rate   float64
	before *bench.Result
	slo    []bench.Objective
	load   *bench.Onced
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench WORKLOAD",
		Short: "Measure a cluster: operations a second, latencies, processor time",
		Long: `Measure a cluster under load. It writes keys of its own, bench-..., which expire
as the namespace says; give it a --namespace of its own when that matters.

  lifecycle  reserve a fresh key, then commit it: one guarded operation
  reserve    reserve a fresh key, nothing after it: it stays in flight
  replay     reserve a key that was committed before, and get its outcome
  storm      all clients reserve the same key at once; who is granted it commits
             it, then comes the next key. Every answer is one operation. More
             than one grant for a key fails the run
  batch      --batch-size reserves in one call, then their commits in another;
             with --replay one call of reserves of committed keys
  mixed      of lifecycle (fresh), replay and storm, by --mix

With --rate max each client makes its next call when the last one has ended.
With a rate, every call has a time at which it is due, and its latency counts
from then: what waits behind a slow answer is not left out of the figures. A call
that finds no free client before the end is the error not_sent: raise --clients,
or the rate is more than the cluster can do.

Latencies are of calls that did not fail; a call of batch is the whole batch.
"CPU us for each" is the processor time for one operation: of this command, and
of all servers together when each endpoint tells it on /metrics. Compare figures
of one machine and one hour with each other, and no others.

Ctrl-C ends the run early, with the figures so far.`,
		Example: `  onced bench lifecycle
  onced bench lifecycle --clients 256 --for 30s -o json > before.json
  onced bench lifecycle --clients 256 --for 30s --compare before.json
  onced bench replay --rate 5000 --slo 'p99<8ms,opsPerSecond>4900'
  onced bench lifecycle --clients 16 --storm-beside 64`,
		ValidArgs: bench.Workloads,
		Args:      oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.workload = args[0]
			if err := o.check(a, cmd); err != nil {
				return err
			}
			return a.bench(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVarP(&o.clients, "clients", "c", 64, "clients, each with a connection and one call at a time")
	f.StringVar(&o.rateText, "rate", "max", "calls a second, all clients together, or max")
	f.DurationVar(&o.length, "for", 10*time.Second, "how long is measured")
	f.DurationVar(&o.warmup, "warmup", 2*time.Second, "how long the load runs before that")
	addNamespaceFlag(cmd, &o.namespace)
	f.IntVar(&o.valueSize, "value-size", 64, fmt.Sprintf("bytes of the response of a commit, %d to %d", bench.MinValueSize, bench.MaxValueSize))
	f.IntVar(&o.batchSize, "batch-size", 50, fmt.Sprintf("batch: operations of a call, 1 to %d", bench.MaxBatchSize))
	f.BoolVar(&o.replay, "replay", false, "batch: duplicates of committed keys instead of fresh ones")
	f.StringVar(&o.mixText, "mix", mixText(bench.DefaultMix), "mixed: how often each kind of call, as weights")
	f.IntVar(&o.keys, "keys", bench.PreparedKeys, "replay: keys to commit first")
	f.StringVar(&o.spread, "spread", string(bench.SpreadAny), "leader: all clients at the leader; any: each stays at one endpoint, taken in turn; all: each goes round all of them")
	f.IntVar(&o.beside, "storm-beside", 0, "measure once more while this many further clients storm one key after the other, and tell both")
	f.StringVar(&o.compare, "compare", "", "FILE with what -o json gave before: print how many times those figures the new ones are")
	f.StringVar(&o.sloText, "slo", "", "objectives, comma-separated: p50, p90, p99, p99.9, max < a duration, opsPerSecond > a number; exit code 1 when one is missed")
	f.StringVar(&o.client.endpointList, "endpoints", "", "base URLs of nodes, comma-separated (default $ONCED_ENDPOINTS, or "+defaultEndpoint+")")
	o.client.out.addFlag(cmd)
	o.client.timeout = 1 // of the calls of other commands; endpoints wants one
	_ = cmd.RegisterFlagCompletionFunc("spread", cobra.FixedCompletions([]string{"leader", "any", "all"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// oneWorkload wants the name of a workload, and says which there are.
func oneWorkload(_ *cobra.Command, args []string) error {
	known := strings.Join(bench.Workloads, ", ")
	switch {
	case len(args) == 0:
		return usagef("which WORKLOAD? One of %s", known)
	case len(args) > 1:
		return usagef("one WORKLOAD at a time, not %d", len(args))
	case !slices.Contains(bench.Workloads, args[0]):
		msg := "unknown workload " + quote(args[0])
		if near := nearest(args[0], bench.Workloads); near != "" {
			return &exitError{exitUsage, msg, "did you mean: onced bench " + near}
		}
		return &exitError{exitUsage, msg, "one of " + known}
	}
	return nil
}

func mixText(m bench.Mix) string {
	return fmt.Sprintf("fresh=%d,replay=%d,storm=%d", m.Fresh, m.Duplicates, m.Storm)
}

// parseMix reads weights such as fresh=70,replay=30; what is not named is 0.
func parseMix(s string) (m bench.Mix, err error) {
	for _, part := range strings.Split(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(value)
		to := map[string]*int{"fresh": &m.Fresh, "replay": &m.Duplicates, "storm": &m.Storm}[name]
		if to == nil || err != nil || n < 0 || n > 1_000_000 {
			return m, usagef("--mix %s: use fresh=70,replay=25,storm=5, weights of 0 or more", quote(s))
		}
		*to = n
	}
	if m == (bench.Mix{}) {
		return m, usagef("--mix %s: one weight must be above 0", quote(s))
	}
	return m, nil
}

// check holds the flags against what they may be, and reads what they name,
// before there is any load.
func (o *benchOptions) check(a *app, cmd *cobra.Command) (err error) {
	switch {
	case o.clients < 1 || o.clients > maxBenchClients:
		return usagef("--clients %d: use 1 to %d", o.clients, maxBenchClients)
	case o.beside < 0 || o.beside > maxBenchClients:
		return usagef("--storm-beside %d: use 0 to %d", o.beside, maxBenchClients)
	case o.length <= 0:
		return usagef("--for %v: use a duration above zero", o.length)
	case o.warmup < 0:
		return usagef("--warmup %v: use a duration of zero or more", o.warmup)
	case o.valueSize < bench.MinValueSize || o.valueSize > bench.MaxValueSize:
		return usagef("--value-size %d: use %d to %d", o.valueSize, bench.MinValueSize, bench.MaxValueSize)
	case o.batchSize < 1 || o.batchSize > bench.MaxBatchSize:
		return usagef("--batch-size %d: use 1 to %d", o.batchSize, bench.MaxBatchSize)
	case o.keys < 1:
		return usagef("--keys %d: use 1 or more", o.keys)
	case !slices.Contains(bench.Spreads, bench.Spread(o.spread)):
		return usagef("--spread %s: use leader, any or all", quote(o.spread))
	}
	for flag, workload := range map[string]string{"batch-size": "batch", "replay": "batch", "mix": "mixed"} {
		if cmd.Flags().Changed(flag) && o.workload != workload {
			return usagef("--%s is for the workload %s", flag, workload)
		}
	}
	if err := idem.CheckNamespace(o.namespace); err != nil {
		return usagef("--namespace: %s", err.Detail)
	}
	if o.rateText != "max" {
		if o.rate, err = strconv.ParseFloat(o.rateText, 64); err != nil || !(o.rate > 0 && o.rate <= 1e9) {
			return usagef("--rate %s: use calls a second, above zero, or max", quote(o.rateText))
		}
	}
	if o.sloText != "" {
		if o.slo, err = bench.ParseSLO(o.sloText); err != nil {
			return usagef("--slo: %v", err)
		}
	}
	if o.compare != "" {
		b, err := os.ReadFile(o.compare)
		if err == nil {
			o.before = &bench.Result{}
			err = json.Unmarshal(b, o.before)
		}
		if err != nil {
			return &exitError{exitUsage, fmt.Sprintf("--compare: %v", err), "it takes what onced bench -o json has printed"}
		}
	}
	endpoints, err := o.client.endpoints(a)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if !strings.HasPrefix(e, "http://") {
			return usagef("%s: bench speaks plain http alone", e)
		}
	}
	mix, err := parseMix(o.mixText)
	o.load = &bench.Onced{
		Endpoints: endpoints, Namespace: o.namespace, ValueSize: o.valueSize,
		Spread: bench.Spread(o.spread), BatchSize: o.batchSize, Replay: o.replay, Mix: mix,
	}
	return err
}

// bench runs the load and prints its figures.
func (a *app) bench(ctx context.Context, o *benchOptions) error {
	err := bench.Answering(ctx, o.load.Endpoints)
	if err == nil && o.load.Spread == bench.SpreadLeader {
		o.load.Endpoints, err = bench.Leader(ctx, o.load.Endpoints)
	}
	if err == nil && o.load.NeedsPrepared(o.workload) {
		err = o.load.Prepare(ctx, o.keys)
	}
	if err != nil {
		return benchError(ctx, err)
	}
	start, err := o.load.Start(o.workload)
	if err != nil {
		return &exitError{exitInternal, err.Error(), ""}
	}
	cpu := bench.CPUOfServers(o.load.Endpoints)
	if _, err := cpu(); err != nil { // asked before the load: it finds out which endpoints are one process
		cpu = nil
	}
	load := bench.Load{Clients: o.clients, Rate: o.rate, For: o.length, Warmup: o.warmup, Start: start, CPU: cpu}
	shown := newBenchProgress(a.stderr, a.getenv("TERM"))
	var r *bench.Result
	if o.beside > 0 {
		r, err = load.Beside(ctx, o.load, o.beside, shown.show)
	} else {
		r, err = load.Run(ctx, shown.show)
	}
	shown.end()
	if r == nil {
		return benchError(ctx, err)
	}
	r.Workload = o.workload
	if r.WithoutStorm != nil {
		r.WithoutStorm.Workload = o.workload
	}
	if storm := o.load.Storm(); storm.Grants > 0 {
		r.Storm = &storm
	}
	if err := a.printBench(o, r); err != nil {
		return err
	}
	return o.verdict(ctx, r)
}

// printBench prints the figures, and beside them those of --compare. The JSON
// on stdout is one object: then the comparison is on stderr.
func (a *app) printBench(o *benchOptions, r *bench.Result) error {
	to := a.stdout
	if o.client.out.json {
		b, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			return &exitError{exitInternal, err.Error(), ""}
		}
		if _, err := fmt.Fprintf(a.stdout, "%s\n", b); err != nil {
			return err
		}
		to = a.stderr
	} else if _, err := fmt.Fprint(a.stdout, r.Text()); err != nil {
		return err
	}
	if o.before != nil {
		fmt.Fprintf(to, "\nbeside %s:\n\n%s", o.compare, r.Compared(o.before))
	}
	return nil
}

// verdict is the end of a run with figures.
func (o *benchOptions) verdict(ctx context.Context, r *bench.Result) error {
	if n := o.load.DoubleGrants(); n > 0 {
		return &exitError{
			exitInternal, fmt.Sprintf("%d grants were given for keys that had been granted or committed before: that must never be", n),
			"unless the namespace lets keys run again (onced ns get " + o.namespace + "), keep the data and the logs of all nodes",
		}
	}
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, "interrupted: the figures are those so far", ""}
	}
	if r.Unanswered() {
		return &exitError{exitUnavailable, "no call was answered", "look whether the nodes are ready: onced check ready"}
	}
	if r.Operations == 0 && r.Failed() > 0 {
		most := ""
		for code, n := range r.Errors {
			if most == "" || n > r.Errors[most] {
				most = code
			}
		}
		return &exitError{exitFor(idem.Code(most), 0), "no operation was done: every call failed, most with " + most, ""}
	}
	var missed []string
	for _, objective := range o.slo {
		if text := objective.Missed(r); text != "" {
			missed = append(missed, text)
		}
	}
	if len(missed) > 0 {
		return &exitError{exitInternal, "missed " + strings.Join(missed, "; "), ""}
	}
	return nil
}

// benchError is the end of a run without figures.
func benchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, "interrupted before there were figures", ""}
	}
	if errors.Is(err, bench.ErrNoAnswer) {
		return &exitError{exitUnavailable, err.Error(), "is a cluster running there? Start one with: onced dev"}
	}
	exit := exitInternal
	if coded, ok := errors.AsType[interface {
		error
		Code() string
	}](err); ok {
		exit = exitFor(idem.Code(coded.Code()), 0)
		if bench.IsUnanswered(coded.Code()) {
			exit = exitUnavailable
		}
	}
	return &exitError{exit, err.Error(), ""}
}
