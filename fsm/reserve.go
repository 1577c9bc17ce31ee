package fsm

import (
	"time"

	"github.com/onced/onced/idem"
)

// reserve decides who may run a key: the rows of semantics.md section 3, in
// their order.
func (m *Machine) reserve(sp *space, c *Command) Result {
	switch {
	case c.AttemptId == "":
		return refuse(idem.CodeInvalidRequest, "attemptId: is empty")
	case c.Key != "" && c.Fingerprint != "":
		return refuse(idem.CodeInvalidRequest, "fingerprint: a key is given too")
	}
	key := c.Key
	if key == "" {
		key = m.fingerprintKey(sp, c.Fingerprint)
	}
	r := m.get(sp, key)
	if r == nil {
		if res, no := m.refuseBirth(sp.ns, key); no { // row 2
			return res
		}
		return m.claim(sp, nil, c, key, "") // row 3
	}
	switch {
	case r.Status == Cancelled: // row 4
		return refuseWith(idem.CodeCancelled, "", r)
	case ttlOver(r, m.now) && mayRerun(r, sp.ns): // row 5
		return m.claim(sp, r, c, key, "expired")
	case ttlOver(r, m.now): // row 6
		return refuseExpired(r)
	}
	if mutant == "attemptfirst" && r.Status == Pending && r.AttemptID == c.AttemptId {
		return m.resume(sp, r, c)
	}
	if detail := differs(r, c); detail != "" { // row 7
		return refuseWith(idem.CodeKeyConflict, detail, r)
	}
	switch {
	case r.Settled(): // row 8
		return replay(r, sp.ns)
	case r.Status == Pending && r.AttemptID == c.AttemptId: // row 9
		return m.resume(sp, r, c)
	case r.Status == Released && r.AttemptID == c.AttemptId: // row 10
		return refuseWith(idem.CodeAttemptSpent, "this attempt gave its claim back; a new attempt takes a new attemptId", r)
	case r.Status == Released && r.NotApplied: // row 11
		return m.claim(sp, r, c, key, "not_applied")
	case r.Status == Released:
		return m.claim(sp, r, c, key, "released")
	case m.now < r.LeaseExpiresAt: // row 12
		return refuseInFlight(r, m.now)
	case mayTakeOver(r, sp.ns): // row 13
		return m.claim(sp, r, c, key, "lapsed")
	}
	return refuseUncertain(r) // row 14
}

// differs names what of a request is not as it was when r was claimed, and
// shows nothing of either.
func differs(r *Record, c *Command) string {
	request, operation := r.RequestDigest != c.RequestDigest, r.Operation != c.Operation && mutant != "anyoperation"
	switch {
	case request && operation:
		return "the key was used with another request and another operation"
	case request:
		return "the key was used with another request"
	case operation:
		return "the key was used with another operation"
	}
	return ""
}

// replay answers a duplicate of a settled record.
func replay(r *Record, ns *Namespace) Result {
	if ns.Policy.RejectDuplicates {
		return refuseWith(idem.CodeDuplicate, "the key has an outcome", r)
	}
	return Result{Outcome: OutcomeReplayed, Record: r}
}

// claim grants key to the attempt of c. old is what is there, nil when the key
// is absent, and ended says how the claim in it ended. Only an absent key
// needs room under the quota.
func (m *Machine) claim(sp *space, old *Record, c *Command, key, ended string) Result {
	policy := &sp.ns.Policy
	r := &Record{
		Namespace: sp.ns.Name, Key: key,
		Operation: c.Operation, RequestDigest: c.RequestDigest,
		Status: Pending, AttemptID: c.AttemptId, Attempt: 1, Version: 1,
		CreatedAt: m.now, ClaimedAt: m.now,
		LeaseExpiresAt: m.now.Add(leaseFor(c, policy)),
		TTL:            ttlFor(c, policy), Retention: policy.Retention,
		RerunOnLeaseExpiry: policy.RerunOnLeaseExpiry, RerunOnExpired: policy.RerunOnExpired,
		CorrelationID: c.CorrelationId, Fingerprint: c.Fingerprint,
	}
	if old == nil {
		if res, full := overQuota(sp, r); full {
			return res
		}
	} else {
		m.take(sp, old)
		r.Attempt, r.Version = old.Attempt+1, old.Version+1
		r.Previous = &PreviousAttempt{
			Attempt: old.Attempt, Ended: ended, ClaimedAt: old.ClaimedAt,
			LeaseExpiresAt: old.LeaseExpiresAt, CorrelationID: old.CorrelationID,
		}
		if ended != "expired" { // a new attempt at the same intent
			r.CreatedAt = old.CreatedAt
		}
		if r.Fingerprint == "" {
			r.Fingerprint = old.Fingerprint
		}
	}
	r.Token = m.nextToken()
	m.put(sp, r)
	if c.Fingerprint != "" {
		m.pointFingerprint(r)
	}
	return Result{Outcome: OutcomeReserved, Record: r, Changed: true, LeaseRemaining: remaining(r, m.now)}
}

// resume answers the same attempt asking again: the same grant, its lease
// renewed, never a second one.
func (m *Machine) resume(sp *space, r *Record, c *Command) Result {
	changed := m.renew(sp, r, c)
	return Result{Outcome: OutcomeReserved, Record: r, Resumed: true, Changed: changed, LeaseRemaining: remaining(r, m.now)}
}

// renew counts the lease from now. It never shortens it.
func (m *Machine) renew(sp *space, r *Record, c *Command) bool {
	end := m.now.Add(leaseFor(c, &sp.ns.Policy))
	if end <= r.LeaseExpiresAt {
		return false
	}
	m.take(sp, r)
	r.Version++
	r.LeaseExpiresAt = end
	m.put(sp, r)
	return true
}

// overQuota refuses a record that is not there yet and has no room.
func overQuota(sp *space, r *Record) (Result, bool) {
	p := &sp.ns.Policy
	switch {
	case p.MaxRecords != 0 && sp.records >= p.MaxRecords:
		return refuse(idem.CodeQuotaExceeded, "the namespace holds maxRecords records"), true
	case p.MaxBytes != 0 && sp.bytes+Size(r) > p.MaxBytes:
		return refuse(idem.CodeQuotaExceeded, "the record has no room under the namespace's maxBytes"), true
	}
	return Result{}, false
}

// leaseFor is the lease c asks for, or the default, cut to maxLease.
func leaseFor(c *Command, p *Policy) time.Duration {
	lease := p.Lease
	if c.LeaseUs > 0 {
		lease = Duration(min(c.LeaseUs, Micros(MaxTTL)))
	}
	return max(MinTTL, min(lease, p.MaxLease))
}

// ttlFor is the ttl c asks for, or the default.
func ttlFor(c *Command, p *Policy) time.Duration {
	if c.TtlUs <= 0 {
		return p.TTL
	}
	return max(MinTTL, Duration(min(c.TtlUs, Micros(MaxTTL))))
}
