package chaos

import "math"

// phase is the stored state of a key in the model.
type phase uint8

const (
	absent phase = iota
	pending
	settled
	released
	cancelled
)

// span is a time that is known to lie from lo to hi, both included. Times are
// whole milliseconds, as the API shows them: of two equal ones either may be
// earlier.
type span struct{ lo, hi int64 }

const forever = math.MaxInt64 / 4

func at(t int64) span               { return span{t, t} }
func (s span) add(d int64) span     { return span{s.lo + d, min(s.hi+d, forever)} }
func (s span) empty() bool          { return s.lo > s.hi }
func (s span) has(t int64) bool     { return s.lo <= t && t <= s.hi }
func (s span) contains(t span) bool { return s.lo <= t.lo && t.hi <= s.hi }
func (s span) earliest() int64      { return s.lo }
func (s span) below(t span) span    { return span{s.lo, min(s.hi, t.hi)} } // s where s <= t
func (s span) above(t span) span    { return span{max(s.lo, t.lo), s.hi} } // s where s >= t

// state is one key as the model knows it. Where a call of unknown fate may have
// changed it, the checker keeps several.
type state struct {
	phase   phase
	dropped bool // expired and swept: the version was raised once
	claimed bool // the record holds a claim, live or given back
	gone    bool // carries its birth, and was removed: expired for ever

	request    string
	attemptID  string // of the latest claim
	token      string // of the latest claim; "" until an answer has shown it
	attempt    uint32
	version    uint64
	ended      string // how the claim before ended; "" for the first
	notApplied bool   // released by resolve

	ttl, retention int64
	lease          span // end, while pending
	expires        span // end of the ttl; of released: removal
	retained       span // removal of settled and cancelled
	outcome        string

	// The last outcome that was removed: a node that is behind may still show it.
	past past

	now      int64  // log time is not before
	maxToken string // the highest token seen on this key
}

// past is an outcome that is not on record any more.
type past struct {
	request  string
	outcome  string
	attempt  uint32
	version  uint64
	expires  span
	retained span
}

// tokenLess orders decimal strings without leading zeros.
func tokenLess(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// column is a column of the matrix of semantics.md section 11.
type column byte

const (
	colA column = 'A' // absent
	colH column = 'H' // absent, behind the horizon
	colP column = 'P' // pending, lease live
	colU column = 'U' // pending, lease over, may not be taken over
	colL column = 'L' // pending, lease over, may be taken over
	colS column = 'S' // settled, ttl live
	colE column = 'E' // settled, ttl over
	colX column = 'X' // settled, ttl over, may run again
	colR column = 'R' // released
	colC column = 'C' // cancelled, never claimed
	colK column = 'K' // cancelled after a claim was given back
)

// view is a state at a time: what a call meets.
type view struct {
	col column
	t   span
	s   state
}

// views gives all that a call decided within t may meet: what time and sweeps
// may have made of s by then. Each narrows s and t to what it assumes.
func (s state) views(t span, p *Policy, birth int64) (out []view) {
	switch s.phase {
	case absent:
		out = s.viewsAbsent(t, p, birth)
	case pending:
		if live, ok := liveAt(s, t, s.lease); ok {
			live.s.lease = live.s.lease.above(t)
			live.col = colP
			out = append(out, live)
		}
		over, ok := overAt(s, t, s.lease)
		if !ok {
			break
		}
		over.s.lease = over.s.lease.below(t)
		if over.col = colU; p.RerunLease {
			over.col = colL
			out = append(out, s.removed(over.t, s.lease.add(s.ttl+s.retention), false, p, birth)...)
		}
		out = append(out, over)
	case settled:
		if live, ok := liveAt(s, t, s.expires); ok {
			live.s.expires = live.s.expires.above(t)
			live.col = colS
			out = append(out, live)
		}
		over, ok := overAt(s, t, s.expires)
		if !ok {
			break
		}
		over.s.expires = over.s.expires.below(t)
		if over.col = colE; p.RerunExpired {
			over.col = colX
		}
		out = append(out, over)
		if !s.dropped {
			swept := over
			swept.s.dropped = true
			swept.s.version++
			out = append(out, swept)
		}
		out = append(out, s.removed(over.t, s.retained, !p.RerunExpired, p, birth)...)
	case released:
		out = append(out, view{colR, t, s})
		out = append(out, s.removed(t, s.expires, false, p, birth)...)
	case cancelled:
		col := colC
		if s.claimed {
			col = colK
		}
		out = append(out, view{col, t, s})
		out = append(out, s.removed(t, s.retained, !p.RerunExpired, p, birth)...)
	}
	return out
}

func (s state) viewsAbsent(t span, p *Policy, birth int64) (out []view) {
	if !s.gone {
		out = append(out, view{colA, t, s})
	}
	// The horizon is of the whole namespace: another key's removal may have
	// moved it past this one's birth.
	if s.gone || birth != 0 && !p.RerunExpired && t.hi-birth >= minKept {
		s.gone = true
		out = append(out, view{colH, t, s})
	}
	return out
}

// undropped is s as it was before a sweep took the bytes of its outcome.
func (s state) undropped() state {
	if s.dropped {
		s.dropped = false
		s.version--
	}
	return s
}

// memories gives s as a node that is behind may remember it.
func (s state) memories() []state {
	out := []state{s.undropped()}
	if x := s.past; x.version != 0 {
		out = append(out, state{
			phase: settled, request: x.request, outcome: x.outcome, attempt: x.attempt, version: x.version, expires: x.expires, retained: x.retained,
		})
	}
	return out
}

// minKept is the shortest ttl and retention that a workload asks for together.
const minKept = 500

// removed gives what a sweep at or after due leaves, if t reaches it.
func (s state) removed(t, due span, horizon bool, p *Policy, birth int64) []view {
	v, ok := overAt(s, t, due)
	if !ok {
		return nil
	}
	n := state{gone: s.gone || horizon && birth != 0, now: s.now, maxToken: s.maxToken, past: s.past}
	if s.phase == settled {
		n.past = past{s.request, s.outcome, s.attempt, s.undropped().version, s.expires, s.retained}
	}
	return n.viewsAbsent(v.t, p, birth)
}

// liveAt gives s at a time of t before the deadline, if there can be one.
func liveAt(s state, t, deadline span) (view, bool) {
	t = t.below(deadline)
	return view{s: s, t: t}, !t.empty()
}

// overAt gives s at a time of t at or after the deadline, if there can be one.
func overAt(s state, t, deadline span) (view, bool) {
	t = t.above(deadline)
	return view{s: s, t: t}, !t.empty()
}
