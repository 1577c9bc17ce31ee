package httpapi

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// rooms is where answers are made; a large one is not kept.
var rooms = sync.Pool{New: func() any { return new(encoder) }}

const largestRoom = 256 << 10

// send writes rep: headers, then the whole body in one write.
func (c *call) send(rep *reply) {
	e := rooms.Get().(*encoder)
	defer func() {
		if cap(e.b) <= largestRoom {
			*e = encoder{b: e.b[:0]}
			rooms.Put(e)
		}
	}()
	var contentType []string
	switch body := rep.body.(type) {
	case nil:
	case text:
		contentType = typeText
		e.raw(string(body))
	case jsontext.Value:
		contentType = typeJSON
		e.b = append(e.b, body...)
	default:
		contentType = typeJSON
		if rep.problem {
			contentType = typeProblem
		}
		if e.body(rep.body); e.err != nil {
			rep = c.refuse(c.fault("encoding the answer: %v", e.err))
			contentType = typeProblem
			*e = encoder{b: e.b[:0]}
			e.body(rep.body)
		}
	}
	if n := len(e.b); n > 0 && e.b[n-1] != '\n' {
		e.b = append(e.b, '\n') // or a shell prompt sticks to it
	}
	h := c.w.Header()
	c.headers(h)
	length := -1
	if contentType != nil {
		h["Content-Type"] = contentType
		length = len(e.b)
	}
	c.lines.reply(h, rep, length)
	c.status, c.outcome, c.sent = rep.status, rep.outcome, true
	c.w.WriteHeader(rep.status)
	if contentType != nil {
		_, _ = c.w.Write(e.b) // a caller that has gone asks again
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
	body := &answer{outcome: ok.name, res: res, view: viewOf(r, d.Time, it.holds())}
	if res.Outcome == fsm.OutcomeReplayed {
		// Whoever asks again holds nothing: not even its own made attemptId.
		body.view.secret = false
	}
	rep := &reply{
		status: ok.status, outcome: ok.name, body: body, key: r.Key,
		replayed: replayed(res), index: d.Index, at: d.Time,
	}
	if r.Settled() {
		rep.expires = r.ExpiresAt
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

// stamp writes a log time as the API does, "" when it is not set.
func stamp(t fsm.Time) string {
	if t == 0 {
		return ""
	}
	return idem.Timestamp(t.Std())
}
