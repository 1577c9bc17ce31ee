package cluster

import (
	"context"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// decideWaiting answers a reserve that may wait for another attempt. While this
// node's memory shows a live claim of the same request by another attempt, the
// call is parked here and costs nothing; what it is told at the end is decided
// as any other reserve is.
func (n *Node) decideWaiting(ctx context.Context, c *fsm.Command, wait time.Duration) (*fsm.Decision, error) {
	until := time.Now().Add(wait)
	key := c.Key
	var last *fsm.Decision // in flight, as the log said
	for {
		var lease fsm.Time // end of the claim to wait for; 0: do not park
		var p *waiter
		if key != "" {
			p = n.fsm.keys.park(c.Namespace, key)
			lease = n.claimOfAnother(c, key)
		}
		if n.isDraining() {
			until = time.Now()
		}
		if lease == 0 || !time.Now().Before(until) {
			if p != nil {
				n.fsm.keys.leave(p)
			}
			d, err := n.redecide(ctx, c)
			if err != nil || d.Results[0].Code != idem.CodeInFlight || !time.Now().Before(until) {
				return d, err
			}
			last, key = d, d.Results[0].Record.Key
			if !n.applied(ctx, d.Index) {
				return last, nil
			}
			continue
		}
		t := time.NewTimer(min(time.Until(until), n.untilLogTime(lease)))
		select {
		case <-p.C:
		case <-t.C:
		case <-n.draining:
		case <-ctx.Done():
		case <-n.ctx.Done():
		}
		t.Stop()
		n.fsm.keys.leave(p)
		if ctx.Err() != nil || n.ctx.Err() != nil {
			return nil, unavailable(refused, errClosing)
		}
	}
}

// Drain tells that the node is about to stop: it is no longer ready, and calls
// that wait for another attempt are answered at once, so that they can wait on
// another node. All else is served as ever until Close.
func (n *Node) Drain() { n.drainOnce.Do(func() { close(n.draining) }) }

func (n *Node) isDraining() bool {
	select {
	case <-n.draining:
		return true
	default:
		return false
	}
}

// redecide asks again: memory first, then the log.
func (n *Node) redecide(ctx context.Context, c *fsm.Command) (*fsm.Decision, error) {
	cmds := []*fsm.Command{c}
	if d := n.localAnswer(cmds); d != nil {
		n.local.Add(1)
		return d, nil
	}
	return n.decideAll(ctx, cmds)
}

// claimOfAnother gives the end of the lease when this node's memory shows the
// key as claimed, for the same request, by another attempt whose lease is live;
// else 0.
func (n *Node) claimOfAnother(c *fsm.Command, key string) (lease fsm.Time) {
	n.fsm.read(func(m *fsm.Machine) {
		r, ok := m.Record(c.Namespace, key)
		if ok && r.Status == fsm.Pending && r.AttemptID != c.AttemptId &&
			r.RequestDigest == c.RequestDigest && r.Operation == c.Operation &&
			n.clock.estimate(m.Now()) < r.LeaseExpiresAt {
			lease = r.LeaseExpiresAt
		}
	})
	return lease
}

// untilLogTime gives how long it takes until log time is surely past t.
func (n *Node) untilLogTime(t fsm.Time) time.Duration {
	return t.Sub(n.clock.estimate(n.fsm.now())) + time.Millisecond
}

// applied waits until this node has applied index.
func (n *Node) applied(ctx context.Context, index uint64) bool {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { close(done) })
	defer stop()
	return n.fsm.applied.wait(done, index)
}
