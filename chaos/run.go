package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Config is what a run is made of.
type Config struct {
	Binary   string        // the onced to run; a node is `Binary server`, the exchange `Binary chaos ledger`
	Nodes    int           // 1 to 9
	For      time.Duration // of load and faults; starting, auditing and checking come on top
	AtLeast  int           // faults to inject, if it takes no more than three times For
	Faults   []*Fault
	Workload string
	Clients  int
	Seed     uint64
	Dir      string // where data, logs and history go; must exist
	Commit   string // of the source, for the report
	Command  string // that runs this again, for the report

	CheckWithin time.Duration // what Limits.Within is

	MovableClock bool // Binary was built with the tag chaos

	Progress func(format string, args ...any) // a line for people
}

// callTime is what the workload's calls give the cluster to decide.
const callTime = 2 * time.Second

// mostSkew is how far log time may come to be from the true time while one wall
// clock of three is a day off.
const mostSkew = 2 * time.Second

// Run starts a cluster, a workload and faults, and judges what came of them. The
// error is a run that could not be made; a run that fails is a Report without
// Pass. Everything that it started has ended when it returns.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &runner{Config: c, report: newReport(c), hashes: newHashes()}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	r.work(ctx)
	r.report.LoadSeconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	r.audit(ctx)
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	// What is left needs no node: the checks have the processors to themselves.
	r.end()
	r.judge(ctx)
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	return r.report, nil
}

// runner is one run.
type runner struct {
	Config
	report  *Report
	history *History
	caller  *Caller
	rig     *rig
	ledger  *process
	fills   string // the ledger's file
	load    *load
	hashes  *hashes
	closers []func() error
	from    int64 // of the load, in nanoseconds of the history
	to      int64
}

// open starts everything. What it started is ended by close, also after an error.
func (r *runner) open(ctx context.Context) (err error) {
	if r.history, err = NewHistory(filepath.Join(r.Dir, "history.jsonl")); err != nil {
		return err
	}
	if err := writePID(r.Dir); err != nil {
		return err
	}
	r.caller = NewCaller(r.history, callTime)
	all, fabric, err := r.build()
	if err != nil {
		return err
	}
	nodes := newNodes(r.Binary, r.Dir, all)
	if f, ok := fabric.(*netns); ok {
		f.enter(nodes.http)
	}
	r.rig = &rig{nodes: nodes, fabric: fabric, history: r.history, dir: r.Dir}
	exchange, err := r.startLedger(ctx)
	if err != nil {
		return err
	}
	if err := nodes.startAll(ctx); err != nil {
		return err
	}
	for _, p := range policies {
		if err := nodes.put(ctx, nodes.All[0], "/v1/namespaces/"+p.Name, p.json()); err != nil {
			return err
		}
	}
	r.load = &load{caller: r.caller, nodes: nodes.All, exchange: exchange, seed: r.Seed, slots: newSlots(r.Seed)}
	return nil
}

// build lays the network and the disks that the faults need.
func (r *runner) build() ([]*Node, Fabric, error) {
	if has(r.Faults, clocks) && !r.MovableClock {
		return nil, nil, fmt.Errorf("faults %s need a binary that was built with -tags chaos", namesWith(r.Faults, clocks))
	}
	for _, f := range r.Faults {
		if f.Root && os.Geteuid() != 0 {
			return nil, nil, fmt.Errorf("fault %s needs root", f.Name)
		}
	}
	var all []*Node
	var fabric Fabric
	var err error
	if has(r.Faults, namespaces) {
		var f *netns
		if f, err = newNetns(r.Nodes); err != nil {
			return nil, nil, err
		}
		f.enter(r.caller.http)
		all, fabric = f.members(r.Dir), f
	} else if all, fabric, err = loopback(r.Nodes, r.Dir); err != nil {
		return nil, nil, err
	}
	r.closers = append(r.closers, fabric.Close)
	if has(r.Faults, disks) {
		for _, n := range all {
			if n.disk, err = newDisk(filepath.Join(r.Dir, n.ID+".img"), n.Dir); err != nil {
				return nil, nil, err
			}
			r.closers = append(r.closers, n.disk.remove)
		}
	}
	return all, fabric, nil
}

// startLedger starts the exchange and waits until it says where it listens.
func (r *runner) startLedger(ctx context.Context) (*exchange, error) {
	r.fills = filepath.Join(r.Dir, "ledger.jsonl")
	log := filepath.Join(r.Dir, "ledger.log")
	var err error
	if r.ledger, err = startProcess(log, nil, r.Binary, "chaos", "ledger", "--file", r.fills); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	address := ""
	err = poll(ctx, func() (bool, error) {
		if !r.ledger.running() {
			return false, errors.New("the exchange ended: see " + log)
		}
		f, err := os.Open(log)
		if err != nil {
			return false, err
		}
		defer f.Close()
		line, err := bufio.NewReader(f).ReadString('\n')
		address = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
		return err == nil, nil
	})
	return newExchange(address), err
}

// work lets clients and faults at the cluster for the time of the run.
func (r *runner) work(ctx context.Context) {
	load, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Add(2)
	go func() { defer all.Done(); r.load.run(load, r.Workload, r.Clients) }()
	go func() { defer all.Done(); r.hashes.watch(load, r.rig.nodes) }()
	rng := rand.New(rand.NewPCG(r.Seed, 0))
	m := &nemesis{
		rig: r.rig, faults: r.Faults, rng: rng, progress: r.Progress,
		after: func(ctx context.Context) error {
			_, err := audit(ctx, r.caller, r.rig.nodes.All, rng, 20)
			return err
		},
	}
	r.from = r.history.now()
	r.report.Faults = m.run(ctx, r.For, r.AtLeast)
	// What is under way after a fault that came last may still be told.
	_ = pause(ctx, time.Second)
	r.to = r.history.now()
	stop()
	all.Wait()
	for _, i := range r.report.Faults {
		if w := r.history.firstAckAfter(i.struck); w > 0 && i.struck > 0 {
			i.WriteMs = (w - i.struck) / int64(time.Millisecond)
		}
	}
}

// audit asks every node for everything, before and after all of them were
// stopped and started, and compares their states.
func (r *runner) audit(ctx context.Context) {
	trouble := func(err error) bool {
		if err != nil {
			r.report.wrong("%v", err)
		}
		return err != nil
	}
	rng := rand.New(rand.NewPCG(r.Seed, 1<<40))
	r.Progress("load is over after %d calls: all nodes are stopped and started, and every acknowledged outcome asked of each", len(r.history.Ops()))
	if trouble(r.hashes.converge(ctx, r.rig.nodes)) {
		return
	}
	for _, n := range r.rig.nodes.All {
		if trouble(n.stop(ctx)) {
			return
		}
	}
	if trouble(r.rig.nodes.startAll(ctx)) {
		return
	}
	began := time.Now()
	n, err := audit(ctx, r.caller, r.rig.nodes.All, rng, 0)
	trouble(err)
	r.report.Audited, r.report.AuditSeconds = n, time.Since(began).Seconds()
	trouble(r.hashes.converge(ctx, r.rig.nodes))
	if n == 0 && r.Workload != "" {
		r.report.wrong("no outcome was acknowledged in the whole run")
	}
}

// judge holds everything against the contract.
func (r *runner) judge(ctx context.Context) {
	began := time.Now()
	r.Progress("checking %d calls", len(r.history.Ops()))
	fills, err := ReadLedger(r.fills)
	if err != nil {
		r.report.wrong("the exchange's book: %v", err)
	}
	f := Check(ctx, r.history.Ops(), fills, Limits{Within: r.CheckWithin, Progress: r.Progress})
	r.report.take(f)
	r.report.Fills = len(fills)
	r.report.CheckSeconds = time.Since(began).Seconds()
	r.report.LongestGapMs = r.history.longestGap(r.from, r.to).Milliseconds()
	r.report.WorstSkewMs = r.history.worstSkew().Milliseconds()
	if r.report.WorstSkewMs > mostSkew.Milliseconds() {
		r.report.wrong("log time was %d ms from the true time, more than %v", r.report.WorstSkewMs, mostSkew)
	}
	compared, differ := r.hashes.compared()
	r.report.Hashes = compared
	for _, d := range differ {
		r.report.wrong("diverged: %s", d)
	}
	for _, i := range r.report.Faults {
		if i.Trouble != "" {
			r.report.wrong("fault %s on %s at %.1f s: %s", i.Name, i.Target, i.At, i.Trouble)
		}
	}
	if n := len(r.report.Faults); len(r.Faults) > 0 && n < max(1, r.AtLeast) {
		r.report.wrong("%d faults were injected, and at least %d wanted", n, max(1, r.AtLeast))
	}
	r.report.conclude()
	if len(f.Unexplained) > 0 {
		if err := draw(ctx, filepath.Join(r.Dir, "linearizability.html"), f.Unexplained[0]); err != nil {
			r.report.Reasons = append(r.report.Reasons, "no picture: "+err.Error())
		}
	}
}

// close ends everything that open began.
func (r *runner) close() {
	r.end()
	if r.history != nil {
		if err := r.history.Close(); err != nil {
			r.Progress("%s", fmt.Sprintf("history: %v", err))
		}
	}
}

// end ends all processes, and takes networks and disks down.
func (r *runner) end() {
	if r.rig != nil {
		_ = r.rig.fabric.Heal()
		r.rig.nodes.killAll()
		r.rig = nil
	}
	if r.ledger != nil {
		r.ledger.kill()
		r.ledger = nil
	}
	if r.caller != nil {
		r.caller.Close()
	}
	for i := len(r.closers) - 1; i >= 0; i-- {
		if err := r.closers[i](); err != nil {
			r.Progress("cleaning up: %v", err)
		}
	}
	r.closers = nil
}
