package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/onced/onced/fsm"
)

// Read runs f on the machine, under its read lock, once the state is as fresh
// as o asks for; now is the log time to judge derived states by. f must not
// keep the machine, but may keep records. Read gives the index and the log time
// that the answer stands for. The error is an *idem.Error with CodeUnavailable.
//
// A strong read is linearizable: it waits for an entry that was put into the
// log after it began. raft's VerifyLeader is not used: an answer that was given
// before it was called counts for it, so a deposed leader can read stale.
func (n *Node) Read(ctx context.Context, o fsm.ReadOptions, f func(m *fsm.Machine, now fsm.Time)) (index uint64, at fsm.Time, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}
	if n.isHalted() {
		return 0, 0, unavailable(refused, errHalted)
	}
	want := o.MinIndex
	if o.Strong && mutant != "readfence" {
		i, t, err := n.fence(ctx)
		if err != nil {
			return 0, 0, err
		}
		want, at = max(want, i), t
	}
	if !n.applied(ctx, want) {
		return 0, 0, unavailable(refused, errors.New("this node has not applied the wanted index yet"))
	}
	n.fsm.read(func(m *fsm.Machine) {
		index = m.Index()
		if o.Strong {
			at = max(at, m.Now())
		} else {
			at = n.clock.estimate(m.Now())
		}
		f(m, at)
	})
	return index, at, nil
}

// fence gives an index behind which a read is linearizable, and its log time.
// All readers that wait when an entry is made share it.
func (n *Node) fence(ctx context.Context) (uint64, fsm.Time, error) {
	var cause error
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		_, _, changed := n.leader.current()
		o := n.try(ctx, nil)
		if o.fate == applied {
			return o.decision.Index, o.decision.Time, nil
		}
		if ctx.Err() == nil || cause == nil {
			cause = o.err
		}
		if errors.Is(o.err, errOverloaded) {
			return 0, 0, overloaded()
		}
		if !n.pause(ctx, pause, changed) {
			break
		}
	}
	if errors.Is(cause, errNoLeader) || errors.Is(cause, errStarting) {
		cause = n.whyNot()
	}
	return 0, 0, unavailable(refused, cause) // a read changes nothing, whatever became of it
}
