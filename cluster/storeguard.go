package cluster

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	wal "github.com/hashicorp/raft-wal"
	bolterrors "go.etcd.io/bbolt/errors"
)

// storeGuard runs every access to log and settings: it turns a panic of bbolt on damaged
// pages into an error, and tells of damage and of a disk that does not answer.
type storeGuard struct {
	onDamage   func(error)
	stallAfter time.Duration // 0: never
	// stalls counts the writes that have not been answered for a step of
	// stallAfter; nil: nobody wants to know.
	stalls *atomic.Int32
}

// stallSteps divides stallAfter: after one step a stalled leader falls silent,
// so that the others elect another (transport.go), after all the process ends.
const stallSteps = 16

// run calls f. Damage is told before it returns, because raft panics on an
// unreadable entry and would hide the reason.
func (g storeGuard) run(what string, f func() error) error {
	err := recovered(f)
	if errors.Is(err, errDamaged) {
		err = fmt.Errorf("%s: %w", what, err)
		g.onDamage(&HaltError{ExitHalted, err})
	}
	return err
}

// write calls f under a watchdog: while a disk hangs raft's heartbeats go on and
// no other node takes over (hashicorp/raft#503), so the process has to end. So
// it does after a failed write, unless only space is missing: what a failed sync
// has left on the disk nobody knows, and the next one may succeed without it.
func (g storeGuard) write(what string, f func() error) error {
	defer g.watch(what)()
	err := g.run(what, f)
	if err == nil || errors.Is(err, errDamaged) || storeClosed(err) || noSpace(err) {
		return err
	}
	err = fmt.Errorf("%s: the disk failed: %w", what, err)
	g.onDamage(&HaltError{ExitStalled, err})
	return err
}

// storeClosed tells that a store was asked after it was closed.
func storeClosed(err error) bool {
	return errors.Is(err, bolterrors.ErrDatabaseNotOpen) || errors.Is(err, wal.ErrClosed)
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// watch tells of a write that is not done in time: after one step in stalls,
// after stallAfter as damage. It counts that out in steps, because a process
// that was stopped and continued has lost time, not its disk: then only one
// step is over.
func (g storeGuard) watch(what string) (done func()) {
	if g.stallAfter <= 0 || mutant == "nowatchdog" {
		return func() {}
	}
	var mu sync.Mutex // guards n, over and dog
	n, over := 0, false
	var dog *time.Timer
	mu.Lock()
	defer mu.Unlock()
	dog = time.AfterFunc(g.stallAfter/stallSteps, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if n++; n == 1 && g.stalls != nil {
			g.stalls.Add(1)
		}
		if n < stallSteps {
			dog.Reset(g.stallAfter / stallSteps)
			return
		}
		go g.onDamage(&HaltError{ExitStalled, fmt.Errorf("%s: the disk has not answered for %v", what, g.stallAfter)})
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		dog.Stop()
		if n > 0 && g.stalls != nil {
			g.stalls.Add(-1)
		}
	}
}

// recovered calls f and makes errors of its panics, faults on the mapped file
// included: a file that is cut off while it is open answers with SIGBUS.
func recovered(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return f()
}
