package fsm

import (
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// The operations without a claim (semantics.md section 5).

// resolve states what became of the attempt that the token names. The token of
// c is that of r's latest claim: a judgement of an earlier attempt must not
// fall on its successor.
func (m *Machine) resolve(sp *space, r *Record, c *Command) Result {
	verdict := verdictStatus(c.Verdict)
	switch {
	case verdict == 0:
		return refuse(idem.CodeInvalidRequest, "verdict: must be committed, failed or not_applied")
	case r.Settled() && r.Status == verdict && sameOutcome(r, c):
		return Result{Outcome: OutcomeResolved, Record: r}
	case r.Settled():
		return refuseSettled(r)
	case r.Status == Pending && m.now < r.LeaseExpiresAt:
		return refuseInFlight(r, m.now)
	case r.Status == Released && verdict == Released:
		return Result{Outcome: OutcomeResolved, Record: r}
	case r.Status == Cancelled && verdict == Released:
		return refuseGivenBack(r)
	}
	if res, stale := staleVersion(c, r); stale {
		return res
	}
	if verdict == Released {
		m.free(sp, r, true)
	} else {
		m.recordOutcome(sp, r, c, verdict)
	}
	m.trail(c, "resolve", verdictText(verdict))
	return Result{Outcome: OutcomeResolved, Record: r, Changed: true}
}

func verdictText(verdict Status) string {
	if verdict == Released {
		return "not_applied"
	}
	return statusText(verdict)
}

// sameOutcome tells whether c states nothing that r does not. A verdict alone,
// without response or error code, agrees with any outcome of that kind.
func sameOutcome(r *Record, c *Command) bool {
	alone := !c.HasResponse && !c.ResponseOmitted && c.ErrorCode == ""
	return alone || r.OutcomeDigest == c.OutcomeDigest
}

// cancel makes sure that a key that may still arrive can never start.
func (m *Machine) cancel(sp *space, c *Command) Result {
	r := m.get(sp, c.Key)
	if r == nil {
		if res, no := m.refuseBirth(sp.ns, c.Key); no {
			return res
		}
	} else {
		switch {
		case r.Status == Cancelled:
			return Result{Outcome: OutcomeCancelled, Record: r}
		case r.Status == Pending && m.now < r.LeaseExpiresAt:
			return refuseInFlight(r, m.now)
		case r.Status == Pending:
			return refuseUncertain(r)
		case r.Settled() && !ttlOver(r, m.now):
			return refuseSettled(r)
		case r.Settled() && !mayRerun(r, sp.ns):
			return refuseExpired(r)
		}
		if res, stale := staleVersion(c, r); stale {
			return res
		}
	}
	n := m.cancelled(sp, r, c)
	if r == nil {
		if res, full := overQuota(sp, n); full {
			return res
		}
	} else {
		m.take(sp, r)
	}
	m.put(sp, n)
	m.trail(c, "cancel", "")
	return Result{Outcome: OutcomeCancelled, Record: n, Changed: true}
}

// cancelled gives the record of a cancelled key. One whose claim was given
// back keeps that claim: should it have run all the same, its token may still
// say so. Over an outcome that may be rerun it begins anew.
func (m *Machine) cancelled(sp *space, r *Record, c *Command) *Record {
	p := &sp.ns.Policy
	n := &Record{
		Namespace: sp.ns.Name, Key: c.Key, CreatedAt: m.now, CorrelationID: c.CorrelationId,
		TTL: p.TTL, Retention: p.Retention,
		RerunOnLeaseExpiry: p.RerunOnLeaseExpiry, RerunOnExpired: p.RerunOnExpired,
	}
	switch {
	case r != nil && r.Status == Released:
		*n = *r
		n.NotApplied = false
		n.RerunOnExpired = mayRerun(r, sp.ns) // the stricter, also of the cancellation
	case r != nil:
		n.Version = r.Version
		n.Fingerprint = r.Fingerprint
	}
	n.Version++
	n.Status = Cancelled
	n.SettledAt = m.now
	n.ExpiresAt = m.now.Add(p.TTL)
	n.RetainedUntil = n.ExpiresAt.Add(p.Retention)
	return n
}

// verdictStatus is the state a verdict leads to; 0 for one that is unknown.
func verdictStatus(v fsmpb.Verdict) Status {
	switch v {
	case fsmpb.Verdict_VERDICT_COMMITTED:
		return Committed
	case fsmpb.Verdict_VERDICT_FAILED:
		return Failed
	case fsmpb.Verdict_VERDICT_NOT_APPLIED:
		return Released
	}
	return 0
}
