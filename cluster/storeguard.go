package cluster

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"
)

// storeGuard runs every access to raft.db: it turns a panic of bbolt on damaged
// pages into an error, and tells of damage and of a disk that does not answer.
type storeGuard struct {
	onDamage   func(error)
	stallAfter time.Duration // 0: never
}

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
	if err == nil || errors.Is(err, errDamaged) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) || noSpace(err) {
		return err
	}
	err = fmt.Errorf("%s: the disk failed: %w", what, err)
	g.onDamage(&HaltError{ExitStalled, err})
	return err
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// watch tells of a write that is not done after stallAfter. It counts that out
// in steps, because a process that was stopped and continued has lost time, not
// its disk: then only one step is over.
func (g storeGuard) watch(what string) (done func() bool) {
	if g.stallAfter <= 0 {
		return func() bool { return true }
	}
	const steps = 8
	var mu sync.Mutex // guards n and dog
	n := 0
	var dog *time.Timer
	mu.Lock()
	defer mu.Unlock()
	dog = time.AfterFunc(g.stallAfter/steps, func() {
		mu.Lock()
		defer mu.Unlock()
		if n++; n < steps {
			dog.Reset(g.stallAfter / steps)
			return
		}
		go g.onDamage(&HaltError{ExitStalled, fmt.Errorf("%s: the disk has not answered for %v", what, g.stallAfter)})
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		n = -1 << 20
		return dog.Stop()
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
