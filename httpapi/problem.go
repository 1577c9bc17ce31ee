package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// ProblemTypeBase begins the type of every problem; the code follows.
const ProblemTypeBase = "https://onced.dev/problems/"

// maxRetryAfter caps what a caller is told to wait for another attempt: most
// end long before their lease, and record.leaseExpiresAt tells the rest.
const maxRetryAfter = 5 * time.Second

// problem is an idem.Problem that writes itself: its record has nothing but what
// a caller without the token may know.
type problem struct {
	standing      *standing
	detail        string
	code          idem.Code
	safeNewKey    bool
	applied       idem.Applied
	key           string
	operation     string
	attemptID     string
	verdict       string
	record        problemRecord
	retryAfterMs  int64
	correlationID string
}

// problemRecord is what a refusal tells of the record, nil for nothing. The
// outcome is there with already_settled alone, whose caller settles the key.
type problemRecord struct {
	rec     *fsm.Record
	status  string
	outcome bool
}

func (p *problem) write(e *encoder) {
	e.raw("{")
	e.name(`"type":"` + ProblemTypeBase)
	e.raw(string(p.code))
	e.raw(`"`)
	e.text(`"title":`, p.standing.title)
	e.number(`"status":`, uint64(p.standing.status))
	e.textIf(`"detail":`, p.detail)
	e.text(`"code":`, string(p.code))
	e.boolean(`"retryable":`, p.code.Retryable())
	e.boolean(`"safeNewKey":`, p.safeNewKey)
	e.textIf(`"applied":`, string(p.applied))
	e.textIf(`"key":`, p.key)
	e.textIf(`"operation":`, p.operation)
	e.textIf(`"attemptId":`, p.attemptID)
	e.textIf(`"verdict":`, p.verdict)
	if p.record.rec != nil {
		e.name(`"record":`)
		p.record.write(e)
	}
	if p.retryAfterMs != 0 {
		e.number(`"retryAfterMs":`, uint64(p.retryAfterMs))
	}
	e.text(`"correlationId":`, p.correlationID)
	e.raw("}")
}

func (p *problemRecord) write(e *encoder) {
	r := p.rec
	e.raw("{")
	e.text(`"status":`, p.status)
	e.number(`"attempt":`, uint64(r.Attempt))
	e.number(`"version":`, r.Version)
	e.time(`"createdAt":`, r.CreatedAt)
	e.timeIf(`"leaseExpiresAt":`, leaseEnd(r))
	e.timeIf(`"expiresAt":`, r.ExpiresAt)
	if p.outcome {
		e.timeIf(`"settledAt":`, r.SettledAt)
		// Only while the ttl runs, whether or not the sweep has been there.
		if p.status != statusExpired {
			writeOutcome(e, r)
		}
		e.textIf(`"errorCode":`, r.ErrorCode)
	}
	e.raw("}")
}

// asError gives what a node reported. Anything but an *idem.Error is a fault of
// ours: its cause goes to the log, not to the caller.
func (c *call) asError(err error) *idem.Error {
	var known *idem.Error
	if errors.As(err, &known) && known != nil {
		return known
	}
	return c.fault("node: %v", err)
}

// fault logs a fault of ours and gives the error that tells nothing of it.
func (c *call) fault(format string, args ...any) *idem.Error {
	c.srv.log.Error("internal fault", "correlation_id", c.correlation, "operation", c.operation,
		"cause", fmt.Sprintf(format, args...))
	return &idem.Error{Code: idem.CodeInternal}
}

// refuse answers a call that failed before or without an operation.
func (c *call) refuse(err *idem.Error) *reply {
	return c.refuseItem(&item{key: c.key, correlation: c.correlation}, err)
}

// refuseItem answers an operation that has no decision.
func (c *call) refuseItem(it *item, err *idem.Error) *reply {
	correlation := it.correlation
	if correlation == "" {
		correlation = c.correlation
	}
	p := &problem{detail: err.Detail, applied: err.Applied, key: it.key, correlationID: correlation}
	if it.cmd != nil {
		p.operation = it.cmd.Operation
		// Made for a call that went to the node: told in every answer, so that
		// the same call can be repeated with it.
		p.attemptID = it.made
	}
	return newProblem(p, err.Code, err.RetryAfter)
}

// newProblem completes p from the table.
func newProblem(p *problem, code idem.Code, retryAfter time.Duration) *reply {
	code, st := standingOf(code)
	p.standing, p.code, p.safeNewKey = st, code, code.SafeNewKey()
	if p.detail == "" {
		p.detail = st.detail
	}
	if code == idem.CodeInternal {
		p.detail = st.detail // nothing of the inside
	}
	if code == idem.CodeUnavailable && p.applied == "" {
		p.applied = idem.AppliedUnknown // what is not known to be undone may be done
	}
	if code == idem.CodeOverloaded {
		p.applied = idem.AppliedNo
	}
	if st.retryAfter > 0 {
		if retryAfter <= 0 {
			retryAfter = st.retryAfter
		}
		p.retryAfterMs = max(1, (retryAfter + time.Millisecond - 1).Milliseconds())
	} else {
		retryAfter = 0
	}
	return &reply{
		status: st.status, outcome: string(code), body: p, problem: true,
		key: p.key, retryAfter: retryAfter,
	}
}

// refused answers an operation that the machine refused.
func (c *call) refused(it *item, d *fsm.Decision, res *fsm.Result) *reply {
	p := &problem{detail: refusalDetail(res), key: it.key, operation: it.cmd.GetOperation(), attemptID: it.made, correlationID: it.correlation}
	if res.Code == idem.CodeUnavailable {
		p.applied = idem.AppliedNo
		if res.Unknown {
			p.applied = idem.AppliedUnknown
		}
	}
	if r := res.Record; r != nil {
		p.key = r.Key
		status, verdict := viewStatus(r, d.Time)
		if res.Code == idem.CodeKeyExpired {
			p.verdict = verdict
		}
		// A conflict shows nothing of the other intent (B53).
		if res.Code != idem.CodeKeyConflict {
			p.record = problemRecord{rec: r, status: status, outcome: res.Code == idem.CodeAlreadySettled}
		}
	}
	rep := newProblem(p, res.Code, min(res.RetryAfter, maxRetryAfter))
	p.safeNewKey = p.safeNewKey && neverRan(res)
	rep.index, rep.at = d.Index, d.Time
	return rep
}

func refusalDetail(res *fsm.Result) string {
	if res.Code == idem.CodeCancelled && !neverRan(res) {
		return "the key was cancelled after an attempt had given its claim back; it never starts again"
	}
	return res.Detail
}

// neverRan tells whether a refusal of the machine proves that its key started
// nothing and cannot. A key born ahead of log time may start later, or have run
// under another policy; one cancelled after a claim was given back may have run
// all the same.
func neverRan(res *fsm.Result) bool {
	return res.Code == idem.CodeCancelled && res.Record != nil && res.Record.Attempt == 0
}
