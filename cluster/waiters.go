package cluster

import (
	"sync"
	"sync/atomic"
)

// waiters are the calls parked on a key, on this node. The apply loop wakes
// them; whoever registers does so before looking at the key, so that no change
// falls between.
type waiters struct {
	parked atomic.Int64

	mu   sync.Mutex
	keys map[waitKey]map[*waiter]struct{}
}

type waitKey struct{ namespace, key string }

// waiter is one parked call; C receives one value at most until it is drained.
type waiter struct {
	C   chan struct{}
	key waitKey
}

func newWaiters() *waiters {
	return &waiters{keys: map[waitKey]map[*waiter]struct{}{}}
}

// park registers a call on a key until leave.
func (w *waiters) park(namespace, key string) *waiter {
	p := &waiter{make(chan struct{}, 1), waitKey{namespace, key}}
	w.mu.Lock()
	defer w.mu.Unlock()
	set := w.keys[p.key]
	if set == nil {
		set = map[*waiter]struct{}{}
		w.keys[p.key] = set
	}
	set[p] = struct{}{}
	w.parked.Add(1)
	return p
}

func (w *waiters) leave(p *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set := w.keys[p.key]
	delete(set, p)
	if len(set) == 0 {
		delete(w.keys, p.key)
	}
	w.parked.Add(-1)
}

// wake tells every call parked on a key that it changed.
func (w *waiters) wake(namespace, key string) {
	if w.parked.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.keys[waitKey{namespace, key}] {
		p.signal()
	}
}

// wakeAll tells every parked call to look again: the whole state was replaced.
func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range w.keys {
		for p := range set {
			p.signal()
		}
	}
}

func (p *waiter) signal() {
	select {
	case p.C <- struct{}{}:
	default:
	}
}
