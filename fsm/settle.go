package fsm

import (
	"strconv"

	"github.com/onced/onced/idem"
)

// The holder's operations (semantics.md section 4). The token of c is that of
// r's latest claim. "Already so" is answered before anything else is compared.

// settle records what became of an attempt. It works on a claim that was given
// back too: the effect is a fact, and the record must say so.
func (m *Machine) settle(sp *space, r *Record, c *Command, verdict Status) Result {
	outcome := OutcomeCommitted
	if verdict == Failed {
		outcome = OutcomeFailed
	}
	if r.Settled() {
		if r.Status == verdict && r.OutcomeDigest == c.OutcomeDigest {
			return Result{Outcome: outcome, Record: r}
		}
		return refuseSettled(r)
	}
	if res, stale := staleVersion(c, r); stale {
		return res
	}
	m.recordOutcome(sp, r, c, verdict)
	return Result{Outcome: outcome, Record: r, Changed: true}
}

// recordOutcome makes r settled. Its ttl counts from now and is the claim's
// own. A response over the limit never strands the claim: it is left out, and
// the record says so.
func (m *Machine) recordOutcome(sp *space, r *Record, c *Command, verdict Status) {
	m.take(sp, r)
	r.Version++
	r.Status = verdict
	r.NotApplied = false
	r.SettledAt = m.now
	r.ExpiresAt = m.now.Add(r.TTL)
	if mutant == "ttlreserve" {
		r.ExpiresAt = r.ClaimedAt.Add(r.TTL)
	}
	r.RetainedUntil = r.ExpiresAt.Add(r.Retention)
	r.OutcomeDigest = c.OutcomeDigest
	r.ErrorCode = c.ErrorCode
	r.Redacted = c.Redacted
	switch {
	case c.ResponseOmitted || c.HasResponse && int64(len(c.Response)) > sp.ns.Policy.MaxResponseBytes:
		r.ResponseOmitted = true
	case c.HasResponse:
		r.HasResponse, r.Response = true, c.Response
	}
	m.put(sp, r)
}

// release gives the claim back: what it was for surely did not run.
func (m *Machine) release(sp *space, r *Record, c *Command) Result {
	switch {
	case r.Status == Released:
		return Result{Outcome: OutcomeReleased, Record: r}
	case r.Settled():
		return refuseSettled(r)
	case r.Status != Pending:
		return refuseGivenBack(r)
	}
	if res, stale := staleVersion(c, r); stale {
		return res
	}
	m.free(sp, r, false)
	m.trail(c, "release", "attempt "+strconv.FormatUint(uint64(r.Attempt), 10))
	return Result{Outcome: OutcomeReleased, Record: r, Changed: true}
}

// free makes r released. It is kept for its ttl, so that the attempt that gave
// it back is known when it asks again.
func (m *Machine) free(sp *space, r *Record, notApplied bool) {
	m.take(sp, r)
	r.Version++
	r.Status = Released
	r.NotApplied = notApplied
	r.SettledAt = m.now
	r.ExpiresAt = m.now.Add(r.TTL)
	r.RetainedUntil = r.ExpiresAt
	m.put(sp, r)
}

// extend renews the lease, past its end too, as long as nobody else has
// claimed the key.
func (m *Machine) extend(sp *space, r *Record, c *Command) Result {
	switch {
	case r.Settled():
		return refuseSettled(r)
	case r.Status != Pending:
		return refuseGivenBack(r)
	}
	if res, stale := staleVersion(c, r); stale {
		return res
	}
	changed := m.renew(sp, r, c)
	return Result{Outcome: OutcomeExtended, Record: r, Changed: changed, LeaseRemaining: remaining(r, m.now)}
}

func refuseGivenBack(r *Record) Result {
	return refuseWith(idem.CodeStaleToken, "the claim was given back", r)
}

func versions(expected, stored uint64) string {
	return "expectedVersion is " + strconv.FormatUint(expected, 10) + ", the stored version is " + strconv.FormatUint(stored, 10)
}
