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
)

// sweep proposes, on the leader, sweeps of what is due, each bounded so that
// applying one takes a few milliseconds, and the state checks. An idle cluster
// writes nothing.
func (n *Node) sweep(ctx context.Context) {
	checked := time.Now()
	for !sleep(ctx, sweepEvery) {
		if n.leads() != nil {
			continue
		}
		for n.due() && n.leads() == nil && ctx.Err() == nil {
			o := n.try(ctx, []*fsm.Command{{Op: fsmpb.Op_OP_SWEEP, Limit: fsm.DefaultSweepLimit}})
			if o.fate != applied || o.decision.Results[0].Remaining == 0 {
				break // what is left is tried again at the next turn
			}
		}
		if now := time.Now(); now.Sub(checked) >= checkEvery {
			checked = now
			n.checkState(ctx)
		}
	}
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
