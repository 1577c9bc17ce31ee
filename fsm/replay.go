package fsm

import (
	"math"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// Replay answers a reserve from memory alone: only with an outcome that can
// never be superseded, which is one claimed under onExpired reject, asked for
// with the same request and operation before the end of its ttl (semantics.md
// section 7). Under onDuplicate reject the answer is CodeDuplicate. It never
// says no: false means that the log must decide. now is the caller's estimate
// of log time, never ahead of it.
func (m *Machine) Replay(c *Command, now Time) (Result, bool) {
	if c.GetOp() != fsmpb.Op_OP_RESERVE || c.Fingerprint != "" || c.Key == "" || late(c, now) {
		return Result{}, false
	}
	sp, ok := m.spaces[c.Namespace]
	if !ok || sp.ns.Retired {
		return Result{}, false
	}
	r := m.get(sp, c.Key)
	if r == nil || !r.Settled() || r.RerunOnExpired && mutant != "localrerun" || r.Dropped || now >= r.ExpiresAt || differs(r, c) != "" {
		return Result{}, false
	}
	return replay(r, sp.ns), true
}

// countReplays adds what a node served from its memory, once a sequence
// number. It counts only to the claim that was replayed, and raises no
// version: an outcome does not change by being asked for.
func (m *Machine) countReplays(c *Command) Result {
	batch := c.Replays
	if batch.GetNodeId() == "" {
		return refuse(idem.CodeInvalidRequest, "replays: names no node")
	}
	n := nodeState{id: batch.NodeId, node: &fsmpb.Node{Id: batch.NodeId}}
	if i, ok := m.findNode(batch.NodeId); ok {
		n = *m.nodes[i]
	}
	if batch.Sequence <= n.replaySequence {
		return Result{Outcome: OutcomeDone} // a repeat
	}
	n.replaySequence = batch.Sequence
	m.putNode(&n)
	for _, count := range batch.Counts {
		m.countReplay(count)
	}
	return Result{Outcome: OutcomeDone, Changed: true}
}

func (m *Machine) countReplay(count *fsmpb.ReplayCount) {
	sp, ok := m.spaces[count.GetNamespace()]
	if !ok || sp.ns.Retired || count.Count == 0 {
		return
	}
	x, ok := m.store.find(sp.number, count.Key)
	if !ok {
		return
	}
	if b := m.store.at(x); b.token() != count.Token || !isSettled(b.status()) {
		return
	}
	t := m.store.tallies.at(x)
	m.sum -= m.hashTally(sp.ns.Name, count.Key, t)
	t.replays += min(count.Count, math.MaxUint64-t.replays)
	t.last = max(t.last, min(Time(count.LastUs), m.now))
	m.store.tallies.set(x, t)
	m.sum += m.hashTally(sp.ns.Name, count.Key, t)
}

// ReplaySequence is the number of the last replay batch taken from a node; the
// node's next one is higher.
func (m *Machine) ReplaySequence(nodeID string) uint64 {
	if i, ok := m.findNode(nodeID); ok {
		return m.nodes[i].replaySequence
	}
	return 0
}
