package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// run is one guarded request that may get to run.
type run struct {
	g     *Guard
	rule  *Rule
	in    *incoming
	next  http.Handler
	rec   *recorder
	call  client.Call
	limit int64 // maxResponseBytes of the namespace

	once     sync.Once
	finished chan struct{} // closed when what follows is there for good

	ran     bool
	key     string // of the record
	flight  *flight
	outcome Action
	problem *idem.Error // what to answer with instead of the recorder's answer
	status  int         // of the problem; 0: that of its code
	thrown  any         // what the handler panicked with
	took    time.Duration
}

func (u *run) finish() { u.once.Do(func() { close(u.finished) }) }

// run calls the handler and says what came of it.
func (u *run) run(ctx context.Context, a client.Attempt) (jsontext.Value, error) {
	defer u.finish()
	u.key = a.Key
	u.ran, u.outcome = true, Uncertain // unless it is known otherwise
	u.flight = &flight{body: u.in.body, timeout: u.rule.Timeout}
	began := time.Now()
	u.serve(ctx)
	u.took = time.Since(began)
	return u.settle()
}

// serve hands the request on, with its body and a context of its own.
func (u *run) serve(ctx context.Context) {
	ctx = context.WithValue(ctx, ruleKey{}, u.rule)
	r := u.in.r.WithContext(context.WithValue(ctx, flightKey{}, u.flight))
	r.Header = u.in.r.Header.Clone()
	// The body is read and whole: nothing is left to be asked for, upgraded or
	// sent after it.
	for _, name := range []string{"Expect", "Upgrade", "Http2-Settings", "Trailer"} {
		delete(r.Header, name)
	}
	r.Trailer, r.TransferEncoding = nil, nil
	r.Body = io.NopCloser(bytes.NewReader(u.in.body))
	r.ContentLength = int64(len(u.in.body))
	if len(u.in.body) == 0 {
		r.Body = http.NoBody
	}
	if len(u.rule.SoftFail) > 0 {
		// A soft failure is looked for in the body, which must be readable.
		r.Header.Set("Accept-Encoding", "identity")
	}
	u.thrown = http.ErrAbortHandler // a runtime.Goexit leaves it so
	defer func() {
		if v := recover(); v != nil {
			if u.thrown = v; v != http.ErrAbortHandler {
				u.g.log.Error("the handler panicked: the key is left uncertain", "rule", u.rule.Name, "panic", v, "stack", string(debug.Stack()))
			}
		}
	}()
	u.next.ServeHTTP(u.rec, r)
	u.thrown = nil
}

// settle decides what becomes of the key.
func (u *run) settle() (jsontext.Value, error) {
	f := u.flight
	switch {
	case u.thrown != nil && f.failed == nil:
		return nil, fmt.Errorf("the handler panicked: %v", u.thrown)
	case f.failed != nil && !f.written.Load():
		u.outcome = Release
		u.problem = &idem.Error{Code: CodeUpstreamUnreachable, Detail: "nothing was sent: the upstream cannot be reached; the key was given back", RetryAfter: time.Second}
		return nil, client.NotStarted(f.failed)
	case f.failed != nil:
		u.status = http.StatusBadGateway
		if errors.Is(f.failed, errTimeout) {
			u.status = http.StatusGatewayTimeout
		}
		u.problem = &idem.Error{Code: idem.CodeUncertain, Detail: "the request was sent and no whole answer came back: it may have had its effect; it will not be sent again"}
		return nil, f.failed
	case u.rec.status == 0:
		u.rec.WriteHeader(http.StatusOK)
	}
	if u.rec.cut() {
		u.status, u.problem = http.StatusBadGateway, &idem.Error{Code: idem.CodeUncertain, Detail: "the answer ended before its Content-Length"}
		return nil, io.ErrUnexpectedEOF
	}
	status := u.rec.status
	u.outcome = actionFor(u.rule.Statuses, status)
	if status/100 == 2 && len(u.rule.SoftFail) > 0 && u.outcome != Release {
		if failed, known := u.softFailed(); failed {
			u.outcome = u.rule.SoftFailAction
		} else if !known {
			u.outcome = Uncertain
		}
	}
	switch u.outcome {
	case Release:
		return nil, client.NotStarted(fmt.Errorf("the answer was %d", status))
	case Commit:
		return u.record(), nil
	case Fail:
		return nil, client.FailedWith(fmt.Sprintf("http_%d", status), fmt.Errorf("the answer was %d", status), u.record())
	}
	return nil, fmt.Errorf("the answer was %d", status)
}

// record is the answer as it is kept.
func (u *run) record() jsontext.Value {
	kept := u.rule.keptOf(u.limit)
	body := u.rec.body.Bytes()
	whole := u.rec.whole() && u.rec.size <= kept
	return encode(u.rec.status, keptHeaders(u.rec.sent, u.rule.Headers), body, whole, u.limit)
}

// softFailed looks for a soft failure in the answer. known is false when the
// answer cannot be read: too large, or in an encoding that is not known.
func (u *run) softFailed() (failed, known bool) {
	if !u.rec.whole() {
		return false, false
	}
	body := u.rec.body.Bytes()
	switch strings.ToLower(u.rec.sent.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return false, false
		}
		body, err = io.ReadAll(io.LimitReader(z, evaluated+1))
		if err != nil || len(body) > evaluated {
			return false, false
		}
	default:
		return false, false
	}
	doc := jsontext.Value(body)
	if !doc.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return false, true // no JSON, so it says nothing
	}
	for i := range u.rule.SoftFail {
		if u.rule.SoftFail[i].in(doc) {
			return true, true
		}
	}
	return false, true
}

// give lets the caller have what the run came to.
func (u *run) give(w http.ResponseWriter, ev *Event, outcome string, refuse func(int, *idem.Error)) {
	ev.Outcome = outcome
	if u.thrown != nil && u.problem == nil {
		panic(u.thrown)
	}
	if u.problem != nil {
		if u.rec.passing {
			panic(http.ErrAbortHandler) // the caller must see that the answer is cut
		}
		u.problem.Key = u.key
		clear(w.Header()) // what informational answers left
		w.Header().Set("Onced-Outcome", outcome)
		refuse(u.status, u.problem)
		return
	}
	if !u.rec.passing {
		w.Header().Set("Onced-Outcome", outcome)
	}
	ev.Status = u.rec.status
	u.rec.finish()
}
