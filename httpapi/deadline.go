package httpapi

import (
	"context"
	"sync"
	"time"
)

// deadline is context.WithDeadline for calls that mostly end without anybody
// having waited: the timer, and the place in the parent's list of children, are
// made when the first asks whether it is over. Until then it costs nothing.
type deadline struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	real   context.Context // nil until it is asked for
	cancel context.CancelFunc
	ended  bool
}

func newDeadline(parent context.Context, at time.Time) *deadline {
	if earlier, ok := parent.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	return &deadline{parent: parent, at: at}
}

// start gives the context behind d.
func (d *deadline) start() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.real
}

// end cancels d, as the function that context.WithDeadline gives does.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} { return d.start().Done() }

func (d *deadline) Err() error { return d.start().Err() }

// Value asks the context behind d once there is one, so that package context
// finds its own in it and needs no goroutine to watch d.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	real := d.real
	d.mu.Unlock()
	if real == nil {
		real = d.parent
	}
	return real.Value(key)
}
