package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// plan is how much is measured.
type plan struct {
	records []int
	nodes   []int
	parts   []string // those that are done

	rounds       int           // of each throughput
	warmup       time.Duration // before each
	w1, w2       time.Duration // how long each is measured
	idle         bool          // wait for a collection while idle before the heap is read
	ttl          time.Duration // of what is to expire at once; longer than it takes to fill
	steady       time.Duration // of the load beside snapshots: two of raft's intervals
	restarts     int
	failovers    int
	handovers    int
	besideSettle time.Duration // of a load beside something, before and after it
}

var (
	fullPlan = plan{
		rounds: 3, warmup: 2 * time.Second, w1: 10 * time.Second, w2: 5 * time.Second, idle: true, ttl: 3 * time.Minute,
		steady: 50 * time.Second, restarts: 3, failovers: 10, handovers: 5, besideSettle: 5 * time.Second,
	}
	quickPlan = plan{
		rounds: 1, warmup: 500 * time.Millisecond, w1: time.Second, w2: time.Second, ttl: 15 * time.Second,
		steady: 32 * time.Second, restarts: 1, failovers: 2, handovers: 1, besideSettle: time.Second,
	}
)

// clients is how many there are at saturation.
const clients = 64

// part is a group of figures that needs no other.
type part struct {
	name string
	do   func(*runner, context.Context) error
}

// parts are done in this order. Expiring things are filled first, so that the
// time of their ttl is not waited for, and heaps are read after other clusters
// were busy for a while, when the runtime has collected the garbage of idle ones.
var parts = []part{
	{"sweep", (*runner).fillSweep},
	{"growth", (*runner).growth},
	{"nodes", (*runner).compareNodes},
	{"growth", (*runner).grownHeaps},
	{"growth", (*runner).grownRestarts},
	{"sweep", (*runner).sweep},
	{"failover", (*runner).failover},
	{"sweep", (*runner).tombstones},
}

func partNames() (names []string) {
	for _, p := range parts {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// set takes the arguments.
func (p *plan) set(records, nodes, only string, rest []string) (err error) {
	if len(rest) > 0 {
		return fmt.Errorf("what is %q?", rest[0])
	}
	if p.records, err = numbers(records, 1_000, 50_000_000); err != nil {
		return err
	}
	if p.nodes, err = numbers(nodes, 1, 9); err != nil {
		return err
	}
	p.parts = partNames()
	if only != "" {
		p.parts = strings.Split(only, ",")
		for _, name := range p.parts {
			if !slices.Contains(partNames(), name) {
				return fmt.Errorf("no part is named %q; they are %s", name, strings.Join(partNames(), ", "))
			}
		}
	}
	return nil
}

// sweepSize is how many records expire at once, and how many a node misses: the
// largest size that is not over a million, which the targets are for.
func (p *plan) sweepSize() int {
	size := p.records[0]
	for _, n := range p.records {
		if n <= 1_000_000 {
			size = n
		}
	}
	return size
}

// runner is one run.
type runner struct {
	plan
	dir        string
	onced      string
	fileSystem string
	began      time.Time

	clusters []*cluster // all that were started
	grown    []*grown
	expiring *cluster
	expires  time.Time
	quiet    time.Time // since when nothing but tombstones is on expiring
	table    table

	saturated time.Duration // of all load at saturation
	elections float64       // during it
}

// all does the parts.
func (r *runner) all(ctx context.Context) error {
	for _, p := range parts {
		if !slices.Contains(r.parts, p.name) {
			continue
		}
		if err := p.do(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if r.saturated > 0 {
		r.table.target("G21", fmt.Sprintf("elections in %.1f minutes at saturation", r.saturated.Minutes()), r.elections, count, 0, 0,
			"all throughput runs and fillings; the target is for ten minutes")
	}
	return nil
}

// end ends whatever runs.
func (r *runner) end() {
	for _, c := range r.clusters {
		c.stop()
	}
}

// drop ends a cluster that is needed no more.
func (r *runner) drop(c *cluster) error {
	r.clusters = slices.DeleteFunc(r.clusters, func(x *cluster) bool { return x == c })
	return c.remove()
}

// say tells how far the run is.
func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// setting is the paragraph above the table.
func (r *runner) setting() string {
	return fmt.Sprintf("Measured %s at %s, in %s: %d cores, %s, load generator and all nodes on this one machine, %s, fsync on, default settings "+
		"unless a line says otherwise, but for a GOMEMLIMIT of 512 MiB and 900 bytes a record for each node; key 40 bytes, response 64. W1 is reserve and commit, W2 the reserve of a committed key. Medians of %d.",
		r.began.UTC().Format(time.DateOnly), revision(), time.Since(r.began).Round(time.Second), runtime.NumCPU(), processor(), r.fileSystem, r.rounds)
}

// revision is the commit that this program was built from.
func revision() string {
	commit, changes := "an unknown commit", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value[:min(12, len(s.Value))]
			case "vcs.modified":
				if s.Value == "true" {
					changes = " and changes"
				}
			}
		}
	}
	return commit + changes
}

func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// saturate does f, which keeps c busy, and counts the elections meanwhile.
func (r *runner) saturate(ctx context.Context, c *cluster, f func() error) error {
	before, err := c.term(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f(); err != nil {
		return err
	}
	r.saturated += time.Since(began)
	after, err := c.term(ctx)
	r.elections += after - before
	return err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var (
	errNothing      = errors.New("no operation was done")
	errNotCollected = errors.New("the runtime has not collected since")
)
