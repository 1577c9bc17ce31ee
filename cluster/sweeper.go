package cluster

import (
	"context"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

const (
	sweepEvery = 500 * time.Millisecond
	checkEvery = 10 * time.Second
	sweepLeast = 250 // records: a millisecond or less to apply
)

// sweepPace spreads a large backlog: each sweep is small, and as long as it took
// nothing is swept, so that calls have the rest of the time. When the backlog
// does not shrink by a quarter of a sweep, because more becomes due meanwhile,
// sweeps double.
type sweepPace struct {
	limit uint32
	left  int // after the sweep before; negative: there was none
}

func newSweepPace() sweepPace { return sweepPace{sweepLeast, -1} }

// swept notes how much was left due.
func (p *sweepPace) swept(left int) {
	if p.left >= 0 && left > p.left-int(p.limit)/4 {
		p.limit = min(2*p.limit, fsm.MaxSweep)
	}
	p.left = left
}

// sweep proposes, on the leader, sweeps of what is due, and the state checks. An
// idle cluster writes nothing.
func (n *Node) sweep(ctx context.Context) {
	checked := time.Now()
	for !sleep(ctx, sweepEvery) {
		if n.leads() != nil {
			continue
		}
		for p := newSweepPace(); n.due() && n.leads() == nil && ctx.Err() == nil; {
			began := time.Now()
			o := n.try(ctx, []*fsm.Command{{Op: fsmpb.Op_OP_SWEEP, Limit: p.limit}})
			if o.fate != applied || o.decision.Results[0].Remaining == 0 {
				break // what is left is tried again at the next turn
			}
			p.swept(o.decision.Results[0].Remaining)
			checked = n.checkDue(ctx, checked)
			sleep(ctx, time.Since(began))
		}
		checked = n.checkDue(ctx, checked)
	}
}

// checkDue checks the state when the last check was long ago, and gives when it
// was last checked.
func (n *Node) checkDue(ctx context.Context, last time.Time) time.Time {
	now := time.Now()
	if now.Sub(last) < checkEvery {
		return last
	}
	n.checkState(ctx)
	return now
}

// due tells whether some record waits to be swept.
func (n *Node) due() (due bool) {
	n.fsm.read(func(m *fsm.Machine) {
		t, ok := m.NextDue()
		due = ok && t <= n.clock.estimate(m.Now())
	})
	return due
}

// checkState puts the state hash of the last tick into the log, if anything has
// been decided since: a replica that had another one then halts.
func (n *Node) checkState(ctx context.Context) {
	var tick *fsm.Command
	n.fsm.read(func(m *fsm.Machine) {
		index, hash := m.LastTick()
		if m.Index() > index {
			tick = &fsm.Command{Op: fsmpb.Op_OP_TICK, CheckIndex: index, CheckHash: hash}
		}
	})
	if tick != nil {
		n.try(ctx, []*fsm.Command{tick})
	}
}
