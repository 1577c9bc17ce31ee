package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/onced/onced/idem"
)

// shortestTry is the least that a try is given while the budget has it.
const shortestTry = 250 * time.Millisecond

// limited gives ctx a deadline if it has none: the budget, and what the call
// may be parked.
func (s *shared) limited(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.budget+wait)
}

// call sends r until a node decides it, the budget is over, or nothing can come
// of asking again. accept takes the 2xx answer; an error of it means that the
// answer is none of a node's, and the next node is asked. The error of call is
// a *idem.Error, or wraps one.
//
// To ask again is safe after any failure, broken connections and time-outs
// included: r carries an attemptId or a token, or does not depend on either
// (cancel, reads), and a node answers the same call the same way.
func (s *shared) call(ctx context.Context, r *request, accept func(*answer) error) error {
	ctx, cancel := s.limited(ctx, r.wait)
	defer cancel()
	deadline, _ := ctx.Deadline()
	p := &pacer{
		list: s.endpoints.order(), deadline: deadline, jitter: s.jitter(),
	}
	p.notBefore = make([]time.Time, len(p.list))
	t := &tally{reads: r.method == http.MethodGet}
	var final error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		done, err := s.try(ctx, p, r, t, accept)
		if done {
			final = err
			if err != nil {
				return struct{}{}, backoff.Permanent(err)
			}
			return struct{}{}, nil
		}
		return struct{}{}, err
	}, backoff.WithBackOff(p), backoff.WithMaxElapsedTime(0))
	r.unsure = t.unknown
	switch {
	case final != nil:
		return final
	case err != nil:
		return t.verdict(ctx)
	}
	return nil
}

// jitter gives pauses drawn evenly from 0 to a bound that doubles: the library
// spreads an interval by a factor, and by 1 is full jitter up to twice of it.
func (s *shared) jitter() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: s.firstPause / 2, MaxInterval: s.longestPause / 2, Multiplier: 2, RandomizationFactor: 1,
	}
}

// try asks the node whose turn it is. done tells that the call is decided: by
// an answer that was taken, or with a refusal.
func (s *shared) try(ctx context.Context, p *pacer, r *request, t *tally, accept func(*answer) error) (done bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	if r.renew != nil {
		if err := r.renew(ctx); err != nil {
			return true, err
		}
	}
	e := p.list[p.pos]
	limit := s.tryLimit(time.Until(p.deadline), r.wait, len(p.list) > 1)
	a, err := s.send(ctx, e, r, limit)
	if err != nil {
		t.unknown = t.unknown || !neverSent(err)
		t.cause = err
		// A caller that hung up says nothing of the node. A budget that is over
		// does: short ones would else end at the same silent node for ever.
		if !errors.Is(ctx.Err(), context.Canceled) {
			s.leave(e, err)
		}
		return false, err
	}
	if a.status/100 == 2 {
		if err := accept(a); err != nil {
			t.unknown, t.cause = true, err
			return s.leaveStrange(e, t, p, err)
		}
		s.endpoints.keep(e)
		s.learn(e, a.header)
		return true, nil
	}
	problem, final, cause := refusal(e, a)
	if final {
		s.endpoints.keep(e)
		if cause != nil {
			return true, &callError{problem, cause}
		}
		return true, problem
	}
	t.last, t.cause = problem, cause
	t.unknown = t.unknown || problem.Applied != idem.AppliedNo
	p.after(problem.RetryAfter)
	if cause != nil && a.status/100 != 5 && a.status != http.StatusTooManyRequests {
		return s.leaveStrange(e, t, p, cause)
	}
	s.leave(e, problem)
	return false, problem
}

// tryLimit is how long one try may take when left is left of the budget.
func (s *shared) tryLimit(left, wait time.Duration, several bool) time.Duration {
	left -= wait
	limit := min(s.tryTimeout, left)
	if several {
		limit = min(limit, max(left/2, shortestTry))
	}
	return max(limit, time.Millisecond) + wait
}

// leave lets the next endpoint be the first to ask.
func (s *shared) leave(e *endpoint, why error) {
	s.endpoints.leave(e)
	s.log.Debug("a node did not decide", "endpoint", e.base, "cause", why)
}

// leaveStrange leaves an endpoint behind which there seems to be no node. When
// all are so, the configuration is wrong, and waiting mends nothing.
func (s *shared) leaveStrange(e *endpoint, t *tally, p *pacer, why error) (done bool, err error) {
	s.leave(e, why)
	if t.strange++; t.strange >= len(p.list) {
		problem := &idem.Error{Code: idem.CodeUnavailable, Detail: "no endpoint is a node of onced: check the endpoints", Applied: idem.AppliedUnknown}
		return true, &callError{problem, why}
	}
	return false, why
}

// pacer is the order and the pace of the tries of one call: each endpoint once
// without a pause, then a pause and another round. An endpoint that named a
// Retry-After is not asked before it is over.
type pacer struct {
	list      []*endpoint
	notBefore []time.Time // by place in list
	pos       int
	deadline  time.Time
	jitter    *backoff.ExponentialBackOff
}

// after keeps the present endpoint from being asked for d.
func (p *pacer) after(d time.Duration) {
	if d > 0 {
		p.notBefore[p.pos] = time.Now().Add(d)
	}
}

// NextBackOff moves to the next endpoint and gives the pause before it. It
// stops rather than sleep through the deadline.
func (p *pacer) NextBackOff() time.Duration {
	now := time.Now()
	for p.pos++; p.pos < len(p.list); p.pos++ {
		if !p.notBefore[p.pos].After(now) {
			return 0
		}
	}
	p.pos = 0
	for i, at := range p.notBefore {
		if at.Before(p.notBefore[p.pos]) {
			p.pos = i
		}
	}
	// The jitter comes on top, so that those who were told the same do not
	// come back together.
	pause := p.jitter.NextBackOff() + max(0, p.notBefore[p.pos].Sub(now))
	if !now.Add(pause).Before(p.deadline) {
		return backoff.Stop
	}
	return pause
}

// Reset begins a new call.
func (p *pacer) Reset() { p.jitter.Reset() }

// pause sleeps for d, less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// problemOf gives the *idem.Error in err.
func problemOf(err error) *idem.Error {
	p, _ := errors.AsType[*idem.Error](err)
	return p
}
