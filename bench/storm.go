package bench

import (
	"context"
	"sync/atomic"
)

// contest is the key that all clients of a storm reserve, and what came of it.
type contest struct {
	o       *Onced
	current atomic.Pointer[round]
	grants  atomic.Int64
}

// round is the time of one key.
type round struct {
	number uint64 // from 0
	key    benchKey
	grants atomic.Int32
}

// StormCount is what came of a storm. Keys counts the keys that had their turn.
// Each should have been granted once; a grant whose answer was lost is not seen,
// and nor is that of a key whose turn came last.
type StormCount struct {
	Keys         int64 `json:"keys"`
	Grants       int64 `json:"grants"`
	DoubleGrants int64 `json:"doubleGrants"`
}

// Storm tells what came of all storms so far, warm-ups included.
func (o *Onced) Storm() StormCount {
	n := StormCount{Grants: o.contest.grants.Load(), DoubleGrants: o.doubles.Load()}
	if r := o.contest.current.Load(); r != nil {
		n.Keys = int64(r.number) + 1
	}
	return n
}

func (s *contest) begin() { s.advance(nil) }

// advance makes the next key the current one, if from still is.
func (s *contest) advance(from *round) {
	if s.current.Load() != from {
		return
	}
	next := &round{}
	if from != nil {
		next.number = from.number + 1
	}
	s.o.keys.put(&next.key, 0, next.number)
	s.current.CompareAndSwap(from, next)
}

// storm reserves the key that all reserve. Whoever is granted it commits it; who
// finds it in flight has been served, and comes back at once.
func (c *caller) storm(ctx context.Context) (int, error) {
	s := &c.o.contest
	r := s.current.Load()
	what, token, err := c.reserve(ctx, &r.key)
	switch {
	case err == errInFlight:
		return 1, nil
	case err != nil:
		// The grant may be in an answer that was lost: nobody would commit.
		s.advance(r)
		return 0, err
	case what == replayed:
		s.advance(r)
		return 1, nil
	}
	s.grants.Add(1)
	again := r.grants.Add(1) > 1
	if again {
		c.o.doubles.Add(1)
	}
	err = c.commit(ctx, &r.key, token)
	s.advance(r)
	switch {
	case again:
		return 0, refusal(codeGrantedAgain)
	case err != nil:
		return 0, err
	}
	return 1, nil
}
