package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// leaderWatch knows who leads and tells when that changes.
type leaderWatch struct {
	raft *raft.Raft
	seen chan raft.Observation

	mu      sync.Mutex
	id      string
	addr    string
	changed chan struct{} // closed at the next change
}

func (w *leaderWatch) init() {
	w.seen = make(chan raft.Observation, 64)
	w.changed = make(chan struct{})
}

func (w *leaderWatch) observe(r *raft.Raft) {
	w.raft = r
	r.RegisterObserver(raft.NewObserver(w.seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	}))
	w.look()
}

// run follows raft's observations; each is only a reason to look, so that none
// can be missed for good.
func (w *leaderWatch) run(ctx context.Context) {
	for {
		select {
		case <-w.seen:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
		w.look()
	}
}

func (w *leaderWatch) look() {
	addr, id := w.raft.LeaderWithID()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id == string(id) && w.addr == string(addr) {
		return
	}
	w.id, w.addr = string(id), string(addr)
	close(w.changed)
	w.changed = make(chan struct{})
}

// current gives the leader, empty when unknown, and a channel that is closed
// when it changes.
func (w *leaderWatch) current() (id, addr string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id, w.addr, w.changed
}

// Leader gives the id of the node that leads, or "" when none is known.
func (n *Node) Leader() string {
	id, _, _ := n.leader.current()
	return id
}

func (n *Node) isLeader() bool {
	r := n.raft.Load()
	return r != nil && r.State() == raft.Leader
}

// leads tells whether this node may decide: it leads, and an entry of its own
// term has been applied here, so that it knows all that was decided before.
func (n *Node) leads() error {
	r := n.raft.Load()
	switch {
	case n.isHalted():
		return errHalted
	case r == nil:
		return errStarting
	case r.State() != raft.Leader:
		return errNotLeader
	case !n.ready.Load():
		return errNotReady
	}
	return nil
}

// lead follows raft's leadership: one goroutine, nothing slow in it. LeaderCh
// keeps the newest value alone, so that two trues in a row mean lost and
// regained in between.
func (n *Node) lead(ctx context.Context) {
	var stop func()
	depose := func() {
		if stop != nil {
			stop()
			stop = nil
		}
		n.ready.Store(false)
	}
	defer depose()
	for {
		select {
		case leads := <-n.raft.Load().LeaderCh():
			depose()
			n.leader.look()
			if leads {
				n.log.Info("this node leads now")
				stop = n.establish(ctx)
			} else {
				n.log.Info("this node no longer leads")
			}
		case <-ctx.Done():
			return
		}
	}
}

// establish gets an entry of the new leader's own term applied and opens the
// node for proposals then. The first leader of all names the cluster in it.
func (n *Node) establish(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && n.isLeader() {
			e := &fsm.Entry{}
			n.fsm.read(func(m *fsm.Machine) {
				if m.ClusterID() == "" {
					e.Commands = append(e.Commands, &fsm.Command{Op: fsmpb.Op_OP_INIT, ClusterId: randomHex(n.cfg.Rand, 16)})
				}
			})
			e.Commands = append(e.Commands, &fsm.Command{Op: fsmpb.Op_OP_TICK})
			o := n.propose(ctx, e)
			if o.fate == applied {
				n.caughtUp.Store(true)
				n.ready.Store(true)
				n.leader.nudge()
				return
			}
			if sleep(ctx, 10*time.Millisecond) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// untilReady waits, on a new leader, until it may decide or no longer leads:
// refused, a call from another node would come back after a pause.
func (n *Node) untilReady(ctx context.Context) {
	for {
		_, _, changed := n.leader.current()
		if !errors.Is(n.leads(), errNotReady) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-n.ctx.Done():
			return
		}
	}
}

// nudge wakes whoever waits for a leader to become usable.
func (w *leaderWatch) nudge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func randomHex(r io.Reader, n int) string {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		panic("cluster: the random source failed: " + err.Error())
	}
	return hex.EncodeToString(b)
}
