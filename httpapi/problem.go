package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// ProblemTypeBase begins the type of every problem; the code follows.
const ProblemTypeBase = "https://onced.dev/problems/"

// maxRetryAfter caps what a caller is told to wait for another attempt: most
// end long before their lease, and record.leaseExpiresAt tells the rest.
const maxRetryAfter = 5 * time.Second

// problem is an idem.Problem as it is written: its record has nothing but what
// a caller without the token may know.
type problem struct {
	Type          string         `json:"type"`
	Title         string         `json:"title"`
	Status        int            `json:"status"`
	Detail        string         `json:"detail,omitempty"`
	Code          idem.Code      `json:"code"`
	Retryable     bool           `json:"retryable"`
	SafeNewKey    bool           `json:"safeNewKey"`
	Applied       idem.Applied   `json:"applied,omitempty"`
	Key           string         `json:"key,omitempty"`
	Operation     string         `json:"operation,omitempty"`
	AttemptID     string         `json:"attemptId,omitempty"`
	Verdict       string         `json:"verdict,omitempty"`
	Record        *problemRecord `json:"record,omitempty"`
	RetryAfterMs  int64          `json:"retryAfterMs,omitzero"`
	CorrelationID string         `json:"correlationId"`
}

// problemRecord is what a refusal tells of the record. The outcome is there
// with already_settled alone, whose caller settles the key.
type problemRecord struct {
	Status         string `json:"status"`
	Attempt        uint32 `json:"attempt"`
	Version        uint64 `json:"version"`
	CreatedAt      string `json:"createdAt"`
	LeaseExpiresAt string `json:"leaseExpiresAt,omitempty"`
	ExpiresAt      string `json:"expiresAt,omitempty"`

	SettledAt       string         `json:"settledAt,omitempty"`
	Response        jsontext.Value `json:"response,omitzero"`
	ResponseOmitted bool           `json:"responseOmitted,omitzero"`
	Redacted        []string       `json:"redacted,omitempty"`
	ErrorCode       string         `json:"errorCode,omitempty"`
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
	p := &problem{Detail: err.Detail, Applied: err.Applied, Key: it.key, CorrelationID: correlation}
	if it.cmd != nil {
		p.Operation = it.cmd.Operation
		// Made for a call that went to the node: told in every answer, so that
		// the same call can be repeated with it.
		p.AttemptID = it.made
	}
	return newProblem(p, err.Code, err.RetryAfter)
}

// newProblem completes p from the table.
func newProblem(p *problem, code idem.Code, retryAfter time.Duration) *reply {
	code, st := standingOf(code)
	p.Type = ProblemTypeBase + string(code)
	p.Title, p.Status, p.Code = st.title, st.status, code
	p.Retryable, p.SafeNewKey = code.Retryable(), code.SafeNewKey()
	if p.Detail == "" {
		p.Detail = st.detail
	}
	if code == idem.CodeInternal {
		p.Detail = st.detail // nothing of the inside
	}
	if code == idem.CodeUnavailable && p.Applied == "" {
		p.Applied = idem.AppliedUnknown // what is not known to be undone may be done
	}
	if code == idem.CodeOverloaded {
		p.Applied = idem.AppliedNo
	}
	if st.retryAfter > 0 {
		if retryAfter <= 0 {
			retryAfter = st.retryAfter
		}
		p.RetryAfterMs = max(1, (retryAfter + time.Millisecond - 1).Milliseconds())
	} else {
		retryAfter = 0
	}
	return &reply{
		status: st.status, outcome: string(code), body: p, problem: true,
		key: p.Key, retryAfter: retryAfter,
	}
}

// refused answers an operation that the machine refused.
func (c *call) refused(it *item, d *fsm.Decision, res *fsm.Result) *reply {
	p := &problem{Detail: refusalDetail(res), Key: it.key, Operation: it.cmd.GetOperation(), AttemptID: it.made, CorrelationID: it.correlation}
	if res.Code == idem.CodeUnavailable {
		p.Applied = idem.AppliedNo
		if res.Unknown {
			p.Applied = idem.AppliedUnknown
		}
	}
	if r := res.Record; r != nil {
		p.Key = r.Key
		status, verdict, _ := viewStatus(r, d.Time)
		if res.Code == idem.CodeKeyExpired {
			p.Verdict = verdict
		}
		// A conflict shows nothing of the other intent (B53).
		if res.Code != idem.CodeKeyConflict {
			p.Record = &problemRecord{
				Status: status, Attempt: r.Attempt, Version: r.Version,
				CreatedAt: stamp(r.CreatedAt), LeaseExpiresAt: leaseStamp(r), ExpiresAt: stamp(r.ExpiresAt),
			}
		}
		if res.Code == idem.CodeAlreadySettled {
			p.Record.showOutcome(r, status)
		}
	}
	rep := newProblem(p, res.Code, min(res.RetryAfter, maxRetryAfter))
	p.SafeNewKey = p.SafeNewKey && neverRan(res)
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

// showOutcome adds the recorded outcome; its response only while the ttl runs,
// whether or not the sweep has been there.
func (p *problemRecord) showOutcome(r *fsm.Record, status string) {
	p.SettledAt, p.ErrorCode = stamp(r.SettledAt), r.ErrorCode
	if status != statusExpired {
		p.ResponseOmitted, p.Redacted = r.ResponseOmitted, r.Redacted
		if r.HasResponse {
			p.Response = r.Response
		}
	}
}
