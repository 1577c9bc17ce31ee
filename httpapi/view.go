package httpapi

import (
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// recordView is a record as a caller may see it, at some log time. It writes
// itself as an idem.Record.
type recordView struct {
	rec      *fsm.Record
	status   string
	verdict  string
	takeover bool
	over     bool // the ttl is: the response is not shown
	secret   bool // shows the attemptId and the token
}

// The derived states.
const (
	statusUncertain = "uncertain"
	statusExpired   = "expired"
)

var statusNames = [...]string{
	fsm.Pending: "pending", fsm.Committed: "committed", fsm.Failed: "failed",
	fsm.Released: "released", fsm.Cancelled: "cancelled",
}

// viewStatus gives the status of r as callers see it at now (semantics.md
// section 2); what needs today's policy is the machine's to say.
func viewStatus(r *fsm.Record, now fsm.Time) (status, verdict string) {
	if uint(r.Status) < uint(len(statusNames)) {
		status = statusNames[r.Status]
	}
	switch {
	case r.Status == fsm.Pending && now >= r.LeaseExpiresAt:
		return statusUncertain, ""
	case r.Settled() && now >= r.ExpiresAt:
		return statusExpired, status
	}
	return status, ""
}

// viewOf shows r as of now; secret adds the attemptId and the token.
func viewOf(r *fsm.Record, now fsm.Time, secret bool) recordView {
	v := recordView{rec: r, secret: secret}
	v.status, v.verdict = viewStatus(r, now)
	v.over = v.status == statusExpired
	return v
}

// machineView is viewOf with what today's policy says.
func machineView(m *fsm.Machine, r *fsm.Record, now fsm.Time, secret bool) recordView {
	v := viewOf(r, now, secret)
	v.status, v.verdict, v.takeover = m.ViewStatus(r, now)
	return v
}

func (v *recordView) write(e *encoder) {
	r := v.rec
	e.raw("{")
	e.text(`"namespace":`, r.Namespace)
	e.text(`"key":`, r.Key)
	e.text(`"operation":`, r.Operation)
	e.textIf(`"requestHash":`, r.RequestDigest)
	e.text(`"status":`, v.status)
	e.textIf(`"verdict":`, v.verdict)
	e.flag(`"takeover":`, v.takeover)
	// The ttl bounds how long a response is shown, not how soon a sweep comes.
	if r.Settled() && !v.over {
		writeOutcome(e, r)
	}
	e.textIf(`"errorCode":`, r.ErrorCode)
	if v.secret && r.Token != 0 {
		e.textIf(`"attemptId":`, r.AttemptID)
		e.token(`"token":`, r.Token)
	}
	e.number(`"attempt":`, uint64(r.Attempt))
	e.number(`"version":`, r.Version)
	e.time(`"createdAt":`, r.CreatedAt)
	e.timeIf(`"leaseExpiresAt":`, leaseEnd(r))
	if r.Status != fsm.Pending {
		e.timeIf(`"settledAt":`, r.SettledAt)
	}
	e.timeIf(`"expiresAt":`, r.ExpiresAt)
	e.timeIf(`"retainedUntil":`, r.RetainedUntil)
	e.number(`"replays":`, r.Replays)
	e.timeIf(`"lastReplayedAt":`, r.LastReplayedAt)
	e.textIf(`"correlationId":`, r.CorrelationID)
	e.raw("}")
}

// writeOutcome writes the response of a settled record and what became of it.
func writeOutcome(e *encoder, r *fsm.Record) {
	if r.HasResponse {
		e.value(`"response":`, r.Response)
	}
	e.flag(`"responseOmitted":`, r.ResponseOmitted)
	e.texts(`"redacted":`, r.Redacted)
}

// leaseEnd is when the lease ends, of a pending record alone.
func leaseEnd(r *fsm.Record) fsm.Time {
	if r.Status != fsm.Pending {
		return 0
	}
	return r.LeaseExpiresAt
}

// recordPage is one page of records in key order, an idem.RecordList.
type recordPage struct {
	records []recordView
	next    string
}

func (p *recordPage) write(e *encoder) {
	e.raw(`{"records":[`)
	for i := range p.records {
		if i > 0 {
			e.raw(",")
		}
		p.records[i].write(e)
	}
	e.raw("]")
	e.textIf(`"nextCursor":`, p.next)
	e.raw("}")
}

// answer is the body of every 2xx of the data plane, an idem.Answer.
type answer struct {
	outcome string
	res     *fsm.Result
	view    recordView
}

func (a *answer) write(e *encoder) {
	r := a.res.Record
	e.raw("{")
	e.text(`"outcome":`, a.outcome)
	switch a.res.Outcome {
	case fsm.OutcomeReserved:
		e.token(`"token":`, r.Token)
		e.textIf(`"attemptId":`, r.AttemptID)
		if r.Attempt != 0 {
			e.number(`"attempt":`, uint64(r.Attempt))
		}
		e.boolean(`"resumed":`, a.res.Resumed)
		e.textIf(`"leaseRemaining":`, idem.FormatDuration(a.res.LeaseRemaining))
		if p := r.Previous; p != nil {
			e.name(`"previousAttempt":`)
			writePrevious(e, p)
		}
	case fsm.OutcomeExtended:
		e.textIf(`"leaseRemaining":`, idem.FormatDuration(a.res.LeaseRemaining))
	}
	e.name(`"record":`)
	a.view.write(e)
	e.raw("}")
}

func writePrevious(e *encoder, p *fsm.PreviousAttempt) {
	e.raw("{")
	e.number(`"attempt":`, uint64(p.Attempt))
	e.text(`"ended":`, p.Ended)
	e.time(`"claimedAt":`, p.ClaimedAt)
	e.time(`"leaseExpiresAt":`, p.LeaseExpiresAt)
	e.textIf(`"correlationId":`, p.CorrelationID)
	e.raw("}")
}
