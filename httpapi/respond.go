package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// wire are the options every answer is written with: stored responses keep
// their digits and escapes (api.md), maps keep one order.
var wire = json.JoinOptions(jsontext.PreserveRawStrings(true), json.Deterministic(true))

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

var newline = []byte("\n")

// send writes rep: headers, then the whole body in one write.
func (c *call) send(rep *reply) {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= 256<<10 {
			buffers.Put(buf)
		}
	}()
	contentType := "application/json"
	switch body := rep.body.(type) {
	case nil:
		contentType = ""
	case text:
		contentType = "text/plain; charset=utf-8"
		buf.WriteString(string(body))
	case jsontext.Value:
		buf.Write(body)
	default:
		if rep.problem {
			contentType = "application/problem+json"
		}
		if err := json.MarshalWrite(buf, rep.body, wire); err != nil {
			c.fault("encoding the answer: %v", err)
			buf.Reset()
			rep = c.refuse(&idem.Error{Code: idem.CodeInternal})
			contentType = "application/problem+json"
			_ = json.MarshalWrite(buf, rep.body, wire)
		}
	}
	if buf.Len() > 0 && !bytes.HasSuffix(buf.Bytes(), newline) {
		buf.Write(newline) // or a shell prompt sticks to it
	}
	h := c.w.Header()
	c.headers(h)
	rep.headers(h)
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
		h["Content-Length"] = []string{strconv.Itoa(buf.Len())}
	}
	c.status, c.outcome, c.sent = rep.status, rep.outcome, true
	c.w.WriteHeader(rep.status)
	if contentType != "" {
		_, _ = c.w.Write(buf.Bytes()) // a caller that has gone asks again
	}
}

// headers sets what every answer carries.
func (c *call) headers(h http.Header) {
	h["Cache-Control"] = []string{"no-store"}
	h["X-Correlation-Id"] = []string{c.correlation}
	h["Onced-Node"] = []string{c.srv.node.ID()}
	if leader := c.srv.node.Leader(); leader != "" {
		h["Onced-Leader"] = []string{leader}
	}
}

// headers sets what this answer carries.
func (rep *reply) headers(h http.Header) {
	if rep.key != "" {
		h["Idempotency-Key"] = []string{rep.key}
	}
	if rep.replayed != "" {
		h["Idempotent-Replayed"] = []string{rep.replayed}
	}
	if rep.expires != 0 {
		h["Idempotency-Expires"] = []string{stamp(rep.expires)}
	}
	if rep.etag != 0 {
		h["Etag"] = []string{`"` + strconv.FormatUint(rep.etag, 10) + `"`}
	}
	if rep.at != 0 {
		h["Onced-Time"] = []string{stamp(rep.at)}
		h["Onced-Index"] = []string{strconv.FormatUint(rep.index, 10)}
	}
	if rep.retryAfter > 0 {
		seconds := (rep.retryAfter + time.Second - 1) / time.Second
		h["Retry-After"] = []string{strconv.FormatInt(int64(max(1, seconds)), 10)}
	}
	if rep.allow != "" {
		h["Allow"] = []string{rep.allow}
	}
}

// answer turns one decided operation into its answer.
func (c *call) answer(it *item, d *fsm.Decision, res *fsm.Result) *reply {
	if res.Code != "" {
		c.knows(res.Code)
		return c.refused(it, d, res)
	}
	c.srv.metrics.namespaces.learn(c.namespace)
	ok, known := outcomes[res.Outcome]
	if !known || res.Record == nil {
		return c.refuseItem(it, c.fault("outcome %v without a table row or a record", res.Outcome))
	}
	r := res.Record
	body := &idem.Answer{Outcome: ok.name, Record: recordView(r, d.Time, it.holds())}
	rep := &reply{
		status: ok.status, outcome: ok.name, body: body, key: r.Key,
		replayed: replayed(res), index: d.Index, at: d.Time,
	}
	if r.Settled() {
		rep.expires = r.ExpiresAt
	}
	switch res.Outcome {
	case fsm.OutcomeReserved:
		body.Token, body.AttemptID, body.Attempt = idem.FormatToken(r.Token), r.AttemptID, r.Attempt
		body.Resumed = &res.Resumed
		body.LeaseRemaining = idem.FormatDuration(res.LeaseRemaining)
		body.PreviousAttempt = previousView(r.Previous)
	case fsm.OutcomeExtended:
		body.LeaseRemaining = idem.FormatDuration(res.LeaseRemaining)
	case fsm.OutcomeReplayed:
		// Whoever asks again holds nothing: not even its own made attemptId.
		body.Record.AttemptID, body.Record.Token = "", ""
	}
	return rep
}

// knows keeps the namespaces that are metrics labels: any other refusal of an
// operation shows that the namespace exists.
func (c *call) knows(code idem.Code) {
	switch code {
	case idem.CodeNamespaceNotFound, idem.CodeNamespaceRetired:
		c.srv.metrics.namespaces.forget(c.namespace)
	case idem.CodeUnavailable:
	default:
		c.srv.metrics.namespaces.learn(c.namespace)
	}
}

// replayed says whether an earlier call had already done what this one asks.
func replayed(res *fsm.Result) string {
	switch {
	case res.Outcome == fsm.OutcomeReplayed:
		return "true"
	case res.Outcome == fsm.OutcomeReserved || res.Changed:
		return "false"
	}
	return "true"
}

// holds tells whether the caller of it is the holder, who may see the attempt's
// secrets. A decided operation that carries a token has proved it; resolve is a
// judge's, not the holder's.
func (it *item) holds() bool {
	switch it.cmd.Op {
	case fsmpb.Op_OP_RESERVE, fsmpb.Op_OP_COMMIT, fsmpb.Op_OP_FAIL, fsmpb.Op_OP_RELEASE, fsmpb.Op_OP_EXTEND:
		return true
	}
	return false
}

// The derived states.
const (
	statusUncertain = "uncertain"
	statusExpired   = "expired"
)

var statusNames = map[fsm.Status]string{
	fsm.Pending: "pending", fsm.Committed: "committed", fsm.Failed: "failed",
	fsm.Released: "released", fsm.Cancelled: "cancelled",
}

// viewStatus gives the status of r as callers see it at now (semantics.md
// section 2); what needs today's policy is the machine's to say.
func viewStatus(r *fsm.Record, now fsm.Time) (status, verdict string, takeover bool) {
	status = statusNames[r.Status]
	switch {
	case r.Status == fsm.Pending && now >= r.LeaseExpiresAt:
		return statusUncertain, "", false
	case r.Settled() && now >= r.ExpiresAt:
		return statusExpired, status, false
	}
	return status, "", false
}

// recordView shows r as of now; secret adds the attemptId and the token.
func recordView(r *fsm.Record, now fsm.Time, secret bool) *idem.Record {
	status, verdict, takeover := viewStatus(r, now)
	v := &idem.Record{
		Namespace: r.Namespace, Key: r.Key, Operation: r.Operation, RequestHash: r.RequestDigest,
		Status: status, Verdict: verdict, Takeover: takeover,
		ErrorCode: r.ErrorCode, Attempt: r.Attempt, Version: r.Version,
		CreatedAt: stamp(r.CreatedAt), LeaseExpiresAt: leaseStamp(r), ExpiresAt: stamp(r.ExpiresAt),
		RetainedUntil: stamp(r.RetainedUntil), Replays: r.Replays, LastReplayedAt: stamp(r.LastReplayedAt),
		CorrelationID: r.CorrelationID,
	}
	if r.Status != fsm.Pending {
		v.SettledAt = stamp(r.SettledAt)
	}
	// The ttl bounds how long a response is shown, not how soon a sweep comes.
	if r.Settled() && status != statusExpired {
		v.ResponseOmitted, v.Redacted = r.ResponseOmitted, r.Redacted
		if r.HasResponse {
			v.Response = r.Response
		}
	}
	if secret && r.Token != 0 {
		v.AttemptID, v.Token = r.AttemptID, idem.FormatToken(r.Token)
	}
	return v
}

func previousView(p *fsm.PreviousAttempt) *idem.PreviousAttempt {
	if p == nil {
		return nil
	}
	return &idem.PreviousAttempt{
		Attempt: p.Attempt, Ended: p.Ended, ClaimedAt: stamp(p.ClaimedAt),
		LeaseExpiresAt: stamp(p.LeaseExpiresAt), CorrelationID: p.CorrelationID,
	}
}

// stamp writes a log time as the API does, "" when it is not set.
func stamp(t fsm.Time) string {
	if t == 0 {
		return ""
	}
	return idem.Timestamp(t.Std())
}

// leaseStamp is when the lease ends, of a pending record alone.
func leaseStamp(r *fsm.Record) string {
	if r.Status != fsm.Pending {
		return ""
	}
	return stamp(r.LeaseExpiresAt)
}
