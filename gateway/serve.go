package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// settleWait is how long an answer that is there waits for being recorded. A
// caller then gets it all the same, and the settlement goes on behind it.
const settleWait = 3 * time.Second

// evaluated is how much of a body a soft failure is looked for in.
const evaluated = 1 << 20

// serve answers one request. unmatched takes those that no rule is for.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next, unmatched http.Handler, sniff bool) {
	began := time.Now()
	set := g.rules.Load()
	rule := set.match(r.URL.Path)
	correlation := correlationOf(r)
	ev := Event{Outcome: "refused"}
	defer func() {
		ev.Duration = time.Since(began)
		g.observe(ev)
	}()
	refuse := func(status int, e *idem.Error) {
		if status == 0 {
			status = problemText[e.Code].status
		}
		ev.Code, ev.Status = string(e.Code), status
		writeProblem(w, status, e, correlation)
	}
	if set.paths && !clean(r.URL.EscapedPath()) {
		refuse(0, &idem.Error{Code: idem.CodeInvalidRequest, Detail: "the path has more than one spelling: send it without //, /./, /../, ;, \\ and encoded separators"})
		return
	}
	if rule == nil {
		ev.Outcome = "passed"
		unmatched.ServeHTTP(w, r)
		return
	}
	ev.Rule = rule.Name
	if e := rule.refuseTricks(r); e != nil {
		refuse(0, e)
		return
	}
	if !rule.guards(r.Method) {
		ev.Outcome = "passed"
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ruleKey{}, rule)))
		return
	}
	in, e := read(w, r, rule.MaxRequestBody)
	if e != nil {
		refuse(0, e)
		return
	}
	id, e := rule.identify(in)
	if e != nil {
		refuse(0, e)
		return
	}
	ns, err := g.namespace(rule)
	if err != nil {
		refuse(0, &idem.Error{Code: idem.CodeUnavailable})
		return
	}
	run := &run{
		g: g, rule: rule, in: in, next: next, finished: make(chan struct{}),
		limit: ns.maxResponse(g.alive.Go),
		call: client.Call{
			Key: id.key, Fingerprint: id.fingerprint, Operation: rule.operation(r), Request: in.request(),
			Lease: rule.Timeout + leaseMargin, ClaimTimeout: claimTimeout, CorrelationID: correlation,
		},
	}
	if rule.OnDuplicate == Wait {
		run.call.Wait = rule.Wait
	}
	kept := rule.keptOf(run.limit)
	capture := kept
	if len(rule.SoftFail) > 0 {
		capture = evaluated
	}
	run.rec = newRecorder(w, capture, max(kept, usualLimit), rule.Timeout, sniff)
	run.answer(ns.Client, w, &ev, refuse)
}

// correlationOf is the caller's correlation id, or one that is made here.
func correlationOf(r *http.Request) string {
	if id := r.Header.Get("X-Correlation-Id"); idem.CheckCorrelationID(id) == nil {
		return id
	}
	return rand.Text()
}

// answer makes the call in the background of the handler, which goes as soon as
// the caller has its answer.
func (u *run) answer(c *client.Client, w http.ResponseWriter, ev *Event, refuse func(int, *idem.Error)) {
	var out client.Outcome[jsontext.Value]
	var err error
	done := make(chan struct{})
	u.g.alive.Go(func() {
		defer close(done)
		defer u.finish() // a runtime.Goexit in the handler ends here too
		out, err = client.Do(u.in.r.Context(), c, u.call, u.run, client.Detached())
	})
	settled := true
	select {
	case <-done:
	case <-u.finished:
		late := time.NewTimer(settleWait)
		select {
		case <-done:
		case <-late.C:
			settled = false
		}
		late.Stop()
	}
	ev.Upstream = u.took
	switch {
	case u.ran && !settled:
		u.g.log.Error("an outcome is known and not recorded yet: the cluster does not answer", "rule", u.rule.Name, "key", digest(u.key))
		u.give(w, ev, "unrecorded", refuse)
	case u.ran:
		outcome := u.outcome.String()
		if errors.Is(err, client.ErrUnrecorded) {
			outcome = "unrecorded"
			u.g.log.Error("an outcome is known and was not recorded", "rule", u.rule.Name, "key", digest(u.key), "cause", err)
		}
		u.give(w, ev, past(outcome), refuse)
	case out.Replayed:
		u.replay(w, ev, out.Record, refuse)
	default:
		if _, failed := errors.AsType[*client.FailedError](err); failed {
			u.replay(w, ev, out.Record, refuse)
			return
		}
		e := refusalOf(err)
		if u.in.r.Context().Err() == nil && (e.Code == idem.CodeUnavailable || e.Code == idem.CodeOverloaded) {
			u.g.log.Warn("refused: the cluster does not decide", "rule", u.rule.Name, "cause", err)
		}
		refuse(0, e)
	}
}

// replay gives a recorded outcome again, or says that there is one.
func (u *run) replay(w http.ResponseWriter, ev *Event, rec *idem.Record, refuse func(int, *idem.Error)) {
	duplicate := func(detail string) {
		refuse(0, &idem.Error{Code: idem.CodeDuplicate, Detail: detail, Key: rec.Key, Record: rec})
	}
	if u.rule.OnDuplicate == Reject {
		duplicate("the key has an outcome: " + rec.Status)
		return
	}
	a, err := decode(rec.Response)
	if err != nil {
		duplicate("the key has an outcome (" + rec.Status + "), and no answer was kept that could be given again")
		return
	}
	ev.Outcome, ev.Status = "replayed", a.status
	a.write(w)
}

// past gives the outcome of an action.
func past(action string) string {
	switch action {
	case "commit":
		return "committed"
	case "fail":
		return "failed"
	case "release":
		return "released"
	}
	return action
}

// digest is how keys are logged.
func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}
