package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"
)

// load is clients that write, each its own keys, through all nodes.
type load struct {
	cancel  context.CancelFunc
	writers sync.WaitGroup
	failed  chan struct{} // closed at the first error

	mu    sync.Mutex // guards the rest
	acked []*write
	err   error
}

func startLoad(ctx context.Context, endpoints []string, writers int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, failed: make(chan struct{})}
	for n := range writers {
		// Each writer begins its round at another node.
		round := append(append([]string(nil), endpoints[n%len(endpoints):]...), endpoints[:n%len(endpoints)]...)
		l.writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w := &write{
					key:       fmt.Sprintf("smoke-%d-%d", n, i),
					attemptID: rand.Text(),
					request:   fmt.Sprintf(`{"writer":%d,"n":%d}`, n, i),
					response:  fmt.Sprintf(`{"n":%d,"of":"w%d"}`, i, n),
				}
				// A write that was begun is finished, or is an error: so the
				// last ones of a run are held to the promise as well.
				if err := w.run(context.WithoutCancel(ctx), round); err != nil {
					l.fail(err)
					return
				}
				l.mu.Lock()
				l.acked = append(l.acked, w)
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.failed)
		l.cancel()
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// more returns when n more writes are acknowledged than at the call.
func (l *load) more(ctx context.Context, n int) error {
	want := l.count() + n
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.NewTimer(2 * writeTime)
	defer limit.Stop()
	for l.count() < want {
		select {
		case <-look.C:
		case <-l.failed:
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.err
		case <-limit.C:
			return errors.New("the writes do not go on")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// longest gives the longest time without an acknowledged write since from.
func (l *load) longest(from time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var times []time.Time
	for _, w := range l.acked {
		times = append(times, w.ackedAt)
	}
	sort.Slice(times, func(i, j int) bool { return times[i].Before(times[j]) })
	for i := 1; i < len(times); i++ {
		if times[i].After(from) {
			longest = max(longest, times[i].Sub(times[i-1]))
		}
	}
	return longest
}

// stop ends the load and gives all acknowledged writes and the longest time
// without one. It may be called again.
func (l *load) stop() ([]*write, time.Duration, error) {
	l.cancel()
	l.writers.Wait()
	l.mu.Lock()
	acked, err := l.acked, l.err
	l.mu.Unlock()
	return acked, l.longest(time.Time{}), err
}
