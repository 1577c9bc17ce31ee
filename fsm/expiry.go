package fsm

import (
	"math"
	"time"

	"github.com/onced/onced/idem"
)

// maxAhead bounds how far ahead of log time a key may be born.
const maxAhead = 24 * time.Hour

// mayTakeOver tells whether a reserve may take a pending record over once its
// lease is over: the stricter of its claim's policy and today's decides.
func mayTakeOver(r *Record, ns *Namespace) bool {
	return (r.RerunOnLeaseExpiry || mutant == "policynow") && ns.Policy.RerunOnLeaseExpiry
}

// mayRerun tells whether a key may run anew once the ttl of its outcome is
// over: the stricter of its claim's policy and today's decides.
func mayRerun(r *Record, ns *Namespace) bool {
	return r.RerunOnExpired && ns.Policy.RerunOnExpired
}

// ttlOver tells whether r is settled and its outcome no longer replayed.
func ttlOver(r *Record, now Time) bool { return r.Settled() && now >= r.ExpiresAt }

// birth reads the time a key carries. Keys that are no UUIDv7 carry none.
func birth(key string) (Time, bool) {
	ms, ok := idem.BirthOfUUIDv7(key)
	return Time(ms) * 1000, ok // 48 bits of milliseconds: no overflow
}

// refuseBirth is row 2 of semantics.md section 3: an absent key that carries
// its birth is expired for ever when it was born at or before the horizon.
// Under onExpired reject it is invalid when it was born too far ahead of log
// time: its removal would push the horizon over keys that are not yet born.
// Under rerun no removal moves the horizon, so a clock that is ahead does no
// harm, and retention, which is 0 in preset gateway, sets no bound.
func (m *Machine) refuseBirth(ns *Namespace, key string) (Result, bool) {
	born, ok := birth(key)
	switch {
	case !ok:
		return Result{}, false
	case ns.Horizon != 0 && born <= ns.Horizon:
		return refuse(idem.CodeKeyExpired, "keys of this age are no longer kept; this is no licence to run again"), true
	case !ns.Policy.RerunOnExpired && born > m.now.Add(min(maxAhead, ns.Policy.Retention)):
		return refuse(idem.CodeKeyInvalid, "the key was born ahead of the cluster's time: is the clock of its maker right?"), true
	}
	return Result{}, false
}

// raiseHorizon keeps in constant memory that r was here, when it is removed.
// A birth over maxAhead ahead of log time is left out: a claim made under
// rerun may carry one, and no key may move the horizon further than that.
// The sweep stores it at its end, once.
func (m *Machine) raiseHorizon(sp *space, r *Record) {
	if r.Status != Cancelled && !r.Settled() || mayRerun(r, sp.ns) {
		return
	}
	h := r.CreatedAt
	if mutant == "horizonleft" { // the first seen of the oldest one that is left
		h = m.now
		m.store.records.Scan(func(x ref) bool {
			if x := m.store.record(x); x.Key != r.Key && x.Namespace == r.Namespace {
				h = min(h, x.CreatedAt)
			}
			return true
		})
	}
	if born, ok := birth(r.Key); ok && born <= m.now.Add(maxAhead) {
		h = max(h, born)
	}
	sp.horizon = max(sp.horizon, h)
}

// keepHorizon stores the horizon that a sweep has raised.
func (m *Machine) keepHorizon(sp *space) {
	h := sp.horizon
	sp.horizon = 0
	if h <= sp.ns.Horizon {
		return
	}
	ns := *sp.ns
	ns.Horizon = h
	m.putNamespace(&ns)
}

// NextDue is when a sweep next has something to do.
func (m *Machine) NextDue() (Time, bool) {
	if len(m.draining) > 0 {
		return m.now, true
	}
	first, ok := m.store.dues.Min()
	var at Time
	if ok {
		at = m.store.at(first).at()
	}
	m.lapsing(func(sp *space, first ref) bool {
		if t := m.store.at(first).lapse(); !ok || t < at {
			at, ok = t, true
		}
		return true
	})
	return at, ok
}

// lapsing visits, in name order, the live namespaces under onLeaseExpiry rerun
// that hold a pending claim made under it, with the first such claim to lapse.
// Those under uncertain are passed over in one step, however many such claims
// they hold.
func (m *Machine) lapsing(visit func(sp *space, first ref) bool) {
	first, ok := m.store.lapses.Min()
	for ok {
		number, _, _ := m.store.at(first).id()
		sp := m.spaces[m.store.names[number]]
		if !sp.ns.Retired && (sp.ns.Policy.RerunOnLeaseExpiry || mutant == "sweepuncertain") && !visit(sp, first) {
			return
		}
		// The first of the next namespace: nothing lapses at the end of time.
		first, ok = m.store.seek(m.store.lapses, math.MaxInt64, number, "")
	}
}
