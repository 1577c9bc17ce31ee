package cluster

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// adapter is the state machine as raft sees it. It applies on raft's goroutine
// and wakes whoever waits for a key or an index.
type adapter struct {
	closing   <-chan struct{} // closed when the node stops
	halt      func(*HaltError)
	onLive    func(stamp fsm.Time)          // an entry was applied; not for entries of our own
	onMember  func()                        // what the log says of nodes or cluster changed
	onConfig  func(raft.Configuration)      // the members changed
	onApplied func(index, stateHash uint64) // as Config has it
	counted   func(*fsm.Decision)           // mutant replaysapply

	swept, others prometheus.Observer // how long entries take, with a sweep in them or without; nil: nobody asks

	halted atomic.Bool

	mu      sync.RWMutex // guards machine: the pointer and what it holds
	machine *fsm.Machine

	keys    *waiters
	applied *indexWatch
}

var (
	_ raft.FSM                = (*adapter)(nil)
	_ raft.ConfigurationStore = (*adapter)(nil)
)

func newAdapter(halt func(*HaltError)) *adapter {
	return &adapter{
		halt:    halt,
		machine: fsm.New(),
		keys:    newWaiters(),
		applied: newIndexWatch(),
		onLive:  func(fsm.Time) {}, onMember: func() {}, onConfig: func(raft.Configuration) {},
	}
}

// decided is what an entry's future answers with.
type decided struct {
	at      fsm.Time
	results []fsm.Result
}

// Apply decides one entry. A damaged or unknown one halts the node: it is never
// skipped, and nothing after it is applied.
func (a *adapter) Apply(l *raft.Log) any {
	if a.halted.Load() {
		return errHalted
	}
	e, err := fsm.DecodeEntry(l.Data)
	if err != nil {
		a.stop(haltf("log entry %d of %d bytes cannot be applied: %w. Stop this node and replace its data: it must not skip the entry", l.Index, len(l.Data), err))
		return errHalted
	}
	began := time.Now()
	a.mu.Lock()
	results := a.machine.Apply(l.Index, e)
	now := a.machine.Now()
	at, ours, theirs, diverged := a.machine.Diverged()
	hash := a.machine.StateHash()
	a.mu.Unlock()
	if a.others != nil {
		a.observe(e, time.Since(began))
	}
	if a.onApplied != nil {
		a.onApplied(l.Index, hash)
	}
	if diverged {
		a.stop(haltf("the state of this node differs from the leader's at index %d (%016x, the leader has %016x). Stop this node and replace its data", at, ours, theirs))
		return errHalted
	}
	if mutant == "replaysapply" {
		a.counted(&fsm.Decision{Time: now, Results: results})
	}
	a.onLive(now)
	members := false
	for i, c := range e.Commands {
		switch c.Op {
		case fsmpb.Op_OP_NODE_INFO, fsmpb.Op_OP_INIT:
			members = true
		}
		if r := &results[i]; r.Changed && r.Record != nil {
			a.keys.wake(r.Record.Namespace, r.Record.Key)
		}
	}
	if members {
		a.onMember()
	}
	a.applied.set(l.Index)
	return decided{now, results}
}

// observe counts how long an entry took.
func (a *adapter) observe(e *fsm.Entry, took time.Duration) {
	h := a.others
	if slices.ContainsFunc(e.Commands, func(c *fsm.Command) bool { return c.GetOp() == fsmpb.Op_OP_SWEEP }) {
		h = a.swept
	}
	h.Observe(took.Seconds())
}

// StoreConfiguration follows the membership. That it is there lets a snapshot be
// taken right after a change of it (raft-traps R9).
func (a *adapter) StoreConfiguration(_ uint64, c raft.Configuration) {
	a.onConfig(c)
}

// Snapshot takes a frozen view; it is written while applies go on.
func (a *adapter) Snapshot() (raft.FSMSnapshot, error) {
	if a.halted.Load() {
		return nil, errHalted
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return snapshot{a.machine.View(), a.closing}, nil
}

// Restore replaces the machine by the one that r holds, whole or not at all.
func (a *adapter) Restore(r io.ReadCloser) error {
	defer r.Close()
	if a.halted.Load() {
		return errHalted
	}
	m, err := fsm.ReadSnapshot(bufio.NewReaderSize(r, 1<<20))
	if err != nil {
		return fmt.Errorf("snapshot refused: %w", err)
	}
	a.mu.Lock()
	a.machine = m
	a.mu.Unlock()
	a.onMember()
	a.keys.wakeAll()
	a.applied.set(m.Index())
	return nil
}

// read runs f under the read lock.
func (a *adapter) read(f func(m *fsm.Machine)) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	f(a.machine)
}

func (a *adapter) now() (t fsm.Time) {
	a.read(func(m *fsm.Machine) { t = m.Now() })
	return t
}

func (a *adapter) stop(e *HaltError) {
	if !a.halted.Swap(true) {
		a.halt(e)
	}
}

// indexWatch lets goroutines wait until an index is applied.
type indexWatch struct {
	mu      sync.Mutex
	index   uint64
	waiting map[chan struct{}]uint64
}

func newIndexWatch() *indexWatch { return &indexWatch{waiting: map[chan struct{}]uint64{}} }

func (w *indexWatch) set(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index = max(w.index, index)
	for ch, want := range w.waiting {
		if want <= w.index {
			close(ch)
			delete(w.waiting, ch)
		}
	}
}

// wait returns once index is applied, or false when done is closed first.
func (w *indexWatch) wait(done <-chan struct{}, index uint64) bool {
	w.mu.Lock()
	if index <= w.index {
		w.mu.Unlock()
		return true
	}
	ch := make(chan struct{})
	w.waiting[ch] = index
	w.mu.Unlock()
	select {
	case <-ch:
		return true
	case <-done:
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, ch)
		return index <= w.index
	}
}

func (a *adapter) index() (i uint64) {
	a.read(func(m *fsm.Machine) { i = m.Index() })
	return i
}
