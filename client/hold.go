package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onced/onced/idem"
)

// hold keeps a claim while a run works under it.
type hold struct {
	c     *Client
	claim *Claim
	want  time.Duration // the lease to ask for; 0: the namespace's

	mu    sync.Mutex // guards lease and lost
	lease Lease
	lost  error

	stop func() // ends the renewals and waits for them
}

func newHold(c *Client, claim *Claim, want time.Duration) *hold {
	return &hold{c: c, claim: claim, want: want, lease: claim.Lease, stop: func() {}}
}

// current is the lease as last renewed.
func (h *hold) current() Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

func (h *hold) lostCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// extend renews the lease, within ctx.
func (h *hold) extend(ctx context.Context) error {
	ext, err := h.c.Extend(ctx, ExtendRequest{Key: h.claim.Key, Token: h.claim.Token, Lease: h.want})
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = ext.Lease
	return nil
}

// fresh makes sure that the effect starts in the first 80 % of the lease: a
// claim whose answer took long is extended first (semantics.md section 1).
func (h *hold) fresh(ctx context.Context) error {
	for range 3 {
		if h.current().MayStart() {
			return nil
		}
		if err := h.extend(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: its %s are over before the answers arrive: ask for a longer one", ErrLeaseLost, h.current().Length())
}

// keep renews the lease in the background until stop is called. When it is lost
// the returned context ends with the cause ErrLeaseLost. The renewals do not
// end with ctx: as long as the run works, however its caller is, the key must
// not look abandoned.
func (h *hold) keep(ctx context.Context) context.Context {
	run, cancelRun := context.WithCancelCause(ctx)
	renew, cancelRenew := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		if lost := h.renew(renew); lost != nil {
			h.mu.Lock()
			h.lost = fmt.Errorf("%w: %w", ErrLeaseLost, lost)
			h.mu.Unlock()
			h.c.log.Warn("a lease was lost while its run worked", "attempt", h.claim.Attempt, "cause", lost)
			cancelRun(h.lostCause())
		}
	})
	h.stop = sync.OnceFunc(func() {
		cancelRenew()
		done.Wait()
		cancelRun(context.Canceled)
	})
	return run
}

// renew extends at a third of the lease, and again as often as it takes, until
// ctx ends (nil) or the lease is lost (why).
func (h *hold) renew(ctx context.Context) error {
	for {
		l := h.current()
		if pause(ctx, time.Until(l.sent.Add(l.length/3))) != nil {
			return nil
		}
		// What is not extended when the lease ends by our own clock is lost,
		// answer or no answer.
		limit, cancel := context.WithDeadline(ctx, l.Deadline())
		err := h.extend(limit)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
		case lostBy(err) || l.Remaining() == 0:
			return err
		case pause(ctx, min(max(l.length/10, time.Millisecond), l.Remaining())) != nil:
			return nil
		case l.Remaining() == 0:
			return err
		}
	}
}

// lostBy tells that err is the cluster's word that the claim is another's, or
// nobody's, or settled.
func lostBy(err error) bool {
	p, ok := errors.AsType[*idem.Error](err)
	if !ok {
		return false
	}
	switch p.Code {
	case idem.CodeStaleToken, idem.CodeNotFound, idem.CodeAlreadySettled, idem.CodeCancelled,
		idem.CodeNamespaceNotFound, idem.CodeNamespaceRetired:
		return true
	}
	return false
}
