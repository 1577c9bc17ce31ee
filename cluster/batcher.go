package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/cluster/peerpb"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// The bounds of one log entry and of what waits for one. raft suggests entries
// of at most 512 KiB.
const (
	maxEntryCommands = 512
	maxRelayCommands = 256 // in one message to the leader
	maxEntryBytes    = 512 << 10
	maxWaiting       = 4_096 // commands admitted and not yet in an entry or message
	enqueueTimeout   = time.Second
	relaysInFlight   = 2 // messages a follower has under way to the leader
)

// proposal is a list of commands that one caller wants decided in order, in one
// entry; with no commands it only wants an entry to read behind.
type proposal struct {
	ctx   context.Context
	cmds  []*fsm.Command
	bytes int
	state atomic.Int32  // waiting, taken or given up
	out   outcome       // once done
	done  chan struct{} // receives one value, once taken
}

// end gives a taken proposal its outcome.
func (p *proposal) end(o outcome) {
	p.out = o
	p.done <- struct{}{}
}

const (
	proposalWaiting int32 = iota
	proposalTaken
	proposalGivenUp
)

func newProposal(ctx context.Context, cmds []*fsm.Command) *proposal {
	p := &proposal{ctx: ctx, cmds: cmds, done: make(chan struct{}, 1)}
	for _, c := range cmds {
		p.bytes += proto.Size(c) + 4
	}
	return p
}

// batcher puts what waits into batches: while a batch is under way, everything
// that comes goes into the next. A leader's batches become log entries, each
// with one time stamp; a follower's become messages to the leader.
type batcher struct {
	node  *Node
	most  int                                                  // commands in one batch
	admit func() error                                         // why nothing may be submitted now
	send  func(ctx context.Context, batch []*proposal) outcome // of all of it

	queue *fairQueue
}

func newBatcher(n *Node, most int, admit func() error, send func(context.Context, []*proposal) outcome) *batcher {
	return &batcher{node: n, most: most, admit: admit, send: send, queue: newFairQueue(maxWaiting)}
}

// submit has p decided, or tells why not. When ctx ends first, p is refused if
// no batch has taken it yet, else unknown.
func (b *batcher) submit(ctx context.Context, p *proposal) outcome {
	if err := b.admit(); err != nil {
		return outcome{fate: refused, err: err}
	}
	if !b.queue.push(p) {
		return outcome{fate: refused, err: errOverloaded}
	}
	select {
	case <-p.done:
		return p.out
	case <-ctx.Done():
	case <-b.node.ctx.Done():
	}
	if p.state.CompareAndSwap(proposalWaiting, proposalGivenUp) {
		return outcome{fate: refused, err: ended(ctx, errLate)}
	}
	select {
	case <-p.done:
		return p.out
	default:
		return outcome{fate: unknown, err: ended(ctx, errNoAnswer)}
	}
}

// ended tells why a caller no longer waits: late when its time is over.
func ended(ctx context.Context, late error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errHungUp
	}
	return late
}

// run sends batches, one at a time, until the node closes.
func (b *batcher) run(ctx context.Context) {
	var batch []*proposal // its room is used again: nobody keeps a batch
	for ctx.Err() == nil {
		if batch = b.queue.wait(ctx, batch[:0], b.most, maxEntryBytes); len(batch) > 0 {
			answer(batch, b.send(ctx, batch))
			clear(batch)
		}
	}
}

// take marks p as part of a batch; false: its caller does not wait for it, or
// is told that it is too late.
func (p *proposal) take() bool {
	if !p.state.CompareAndSwap(proposalWaiting, proposalTaken) {
		return false
	}
	if p.ctx.Err() != nil {
		p.end(outcome{fate: refused, err: errLate})
		return false
	}
	return true
}

// answer gives every proposal of a batch its part of the outcome.
func answer(batch []*proposal, o outcome) {
	next := 0
	for _, p := range batch {
		mine := o
		if o.fate == applied {
			d := *o.decision
			d.Results = o.decision.Results[next : next+len(p.cmds) : next+len(p.cmds)]
			next += len(p.cmds)
			mine.decision = &d
		}
		p.end(mine)
	}
}

// commandsOf gives the commands of a batch in order.
func commandsOf(batch []*proposal) []*fsm.Command {
	size := 0
	for _, p := range batch {
		size += len(p.cmds)
	}
	cmds := make([]*fsm.Command, 0, size)
	for _, p := range batch {
		cmds = append(cmds, p.cmds...)
	}
	return cmds
}

// commit puts the commands of a leader's batch into one entry and waits until
// it is decided. A batch of readers alone gets a tick to read behind.
func (n *Node) commit(ctx context.Context, batch []*proposal) outcome {
	if err := n.leads(); err != nil {
		return outcome{fate: refused, err: err}
	}
	e := &fsm.Entry{Commands: commandsOf(batch)}
	if len(e.Commands) == 0 {
		e.Commands = []*fsm.Command{{Op: fsmpb.Op_OP_TICK}}
	}
	return n.propose(ctx, e)
}

// relay sends a follower's batch to the leader as one message and waits for
// its answer, at most as long as the most patient of its callers.
func (n *Node) relay(ctx context.Context, batch []*proposal) outcome {
	var until time.Time
	for _, p := range batch {
		if d, ok := p.ctx.Deadline(); ok && d.After(until) {
			until = d
		}
	}
	if until.IsZero() {
		until = time.Now().Add(defaultBudget)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	cmds := commandsOf(batch)
	budget := fsm.Micros(time.Until(until))
	readers := slices.ContainsFunc(batch, func(p *proposal) bool { return len(p.cmds) == 0 }) && mutant != "relayedfence"
	req := &peerpb.Request{Body: &peerpb.Request_Propose{Propose: &peerpb.Propose{Commands: cmds, Fence: readers, BudgetUs: budget}}}
	if len(cmds) == 0 {
		req.Body = &peerpb.Request_Fence{Fence: &peerpb.Fence{BudgetUs: budget}}
	}
	o := n.forward(ctx, req)
	if o.fate == applied && len(cmds) > 0 && len(o.decision.Results) != len(cmds) {
		return outcome{fate: unknown, err: fmt.Errorf("the leader answered %d of %d commands", len(o.decision.Results), len(cmds))}
	}
	return o
}

// propose stamps an entry, puts it into the log and waits for its fate.
func (n *Node) propose(ctx context.Context, e *fsm.Entry) outcome {
	r := n.raft.Load()
	if r == nil {
		return outcome{fate: refused, err: errStarting}
	}
	stamp, at, ok := n.clock.next(n.fsm.now())
	if !ok {
		return outcome{fate: refused, err: errNoClock}
	}
	e.TimeUs = int64(stamp)
	data, err := fsm.EncodeEntry(e) // never pooled: raft keeps it
	if err != nil {
		return outcome{fate: refused, err: err}
	}
	n.entries.Add(1)
	n.commands.Add(uint64(len(e.Commands)))
	f := r.Apply(data, enqueueTimeout)
	if mutant == "ackearly" {
		d := &fsm.Decision{Index: r.LastIndex() + 1, Time: stamp}
		for _, c := range e.Commands {
			rec := &fsm.Record{Namespace: c.Namespace, Key: c.Key, Token: uint64(stamp)}
			d.Results = append(d.Results, fsm.Result{Outcome: fsm.Outcome(c.Op), Record: rec})
		}
		return outcome{fate: applied, decision: d}
	}
	if err := await(ctx, f); err != nil {
		if ctx.Err() != nil {
			n.abandoned.Add(1)
		}
		if fateOf(err) == unknown && !errors.Is(err, raft.ErrLeadershipLost) {
			n.log.Warn("the fate of a log entry is unknown", "error", err)
		}
		return outcome{fate: fateOf(err), err: err}
	}
	d, ok := f.Response().(decided)
	if !ok {
		return outcome{fate: unknown, err: errHalted}
	}
	// A stamp of our own is anchored at the moment it was made, so that the
	// time the entry took is not lost from the clock.
	if d.at == stamp {
		n.clock.applied(stamp, at)
	}
	if n.batch.queue.waiting() == 0 {
		n.net.news.look()
	}
	return outcome{fate: applied, decision: &fsm.Decision{Index: f.Index(), Time: d.at, Results: d.results}}
}
