package chaos

import (
	"context"
)

// window is where calls of unknown fate may come into the log: behind rank, until
// a log time, and only those that began up to before. The next version shown is
// shows, 0 for none, at the log time by.
type window struct {
	rank   int
	until  int64
	before int64
	shows  uint64
	by     int64
}

// tell adds to p the replays that it explains.
func (s *search) tell(p place, closed, rank int) place {
	for i := closed; i < len(s.replays); i++ {
		r := s.replays[i]
		if r.rank <= rank && p.since <= r.Return && !p.told.has(i) && p.remembered(r.Op, s.policy, s.birth) {
			p.told = p.told.with(i)
		}
	}
	return p
}

// reach gives n's places and all that calls of unknown fate can have made of them.
func (s *search) reach(ctx context.Context, n *spot, w window) []place {
	f := newFront(len(n.places))
	for _, p := range n.places {
		f.add(s.tell(p, n.closed, w.rank))
	}
	for from, applied := 0, 0; from < len(f.list); applied++ {
		reached := f.list[from:]
		from = len(f.list)
		for _, p := range reached {
			if ctx.Err() != nil || s.ctx.Err() != nil {
				return nil
			}
			for _, u := range s.unknown {
				if u.Call > w.before {
					break
				}
				if u.Token != "" && u.Token != p.token {
					continue // not_found or stale_token: nothing changes
				}
				for _, d := range p.decide(u, span{p.now, w.until}, s.policy, s.birth) {
					if !d.wrote || w.misses(d.s, s.policy) {
						continue
					}
					to := place{w.blur(p.state, d.s, leaseOf(u, s.policy)), p.since, p.told}
					if s.ended(u.Call) > n.closed {
						to.since = max(to.since, u.Call)
					}
					if !f.add(s.tell(to, n.closed, w.rank)) {
						continue
					}
					if applied == mostUnknown || len(f.list) >= mostStates {
						s.crowded.Store(true)
						return f.list
					}
				}
			}
		}
	}
	return f.list
}

// misses tells whether a key in state x cannot come to show the next version
// that was shown: versions rise, until a record is removed.
func (w window) misses(x state, p *Policy) bool {
	if w.shows == 0 || x.version <= w.shows {
		return false
	}
	gone := x.mayGo(p)
	return gone == forever || w.by < gone
}

// blur gives after, which a call of unknown fate made of before, without what
// nobody will see, so that many become one: which claim it is, and after how many
// changes, if the record must go before it is shown again. Of a lease that was
// renewed, and may have been any number of times, it gives all ends that there
// may be.
func (w window) blur(before, after state, lease int64) state {
	unseen := func(x state) bool { return w.shows == 0 || x.version > w.shows }
	if after.phase != pending || !unseen(after) {
		return after
	}
	if after.token == "" {
		after.version, after.attempt, after.ended = w.shows+1, 0, ""
	}
	x := after
	x.version, x.now, x.lease = before.version, before.now, before.lease
	if x == before && unseen(before) {
		after.version = before.version
		after.lease.hi = max(after.lease.hi, min(w.until+lease, forever))
	}
	return after
}

// mayGo gives the first time at which a record may have been removed; forever
// when it is not.
func (s state) mayGo(p *Policy) int64 {
	switch s.phase {
	case pending:
		if !p.RerunLease {
			return forever
		}
		return s.lease.lo + s.ttl + s.retention
	case released:
		return s.expires.lo
	case absent:
		return 0
	}
	return s.retained.lo
}
