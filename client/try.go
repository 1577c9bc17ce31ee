package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// maxAnswerBytes bounds what is read of an answer: a page of records is the
// largest.
const maxAnswerBytes = 64 << 20

// request is a call as every try sends it: the bytes, and in them the
// attemptId or token, are the same each time (renew changes the wait alone).
type request struct {
	method string
	path   string // with its query
	body   []byte
	wait   time.Duration                   // that the node may park the call, beyond deciding
	renew  func(ctx context.Context) error // nil, or sets body and wait anew before a try
	unsure bool                            // after the call: a try that nobody answered may have been applied
}

// answer is what came back, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
	// sent is when this try began, on this machine's clock with its monotonic
	// reading: a lease counts from here (semantics.md section 1).
	sent time.Time
}

// once is a body that can be read one time only. net/http knows how to rewind
// the readers of the standard library and then repeats calls by itself; calls
// are repeated here alone, where the budget and the order of nodes are kept.
type once struct{ r *bytes.Reader }

func (o once) Read(p []byte) (int, error) { return o.r.Read(p) }
func (o once) Close() error               { return nil }

// send makes one try at e, which may take limit.
//
// Calls carry their key in the body and not in an Idempotency-Key header, and
// have no GetBody: net/http would otherwise send a call again on its own when a
// connection that it re-used breaks. That would do no harm (the attemptId or
// token is the same), but it would not be counted against the budget. It still
// does so for calls of which nothing was written, and for GET.
func (s *shared) send(ctx context.Context, e *endpoint, r *request, limit time.Duration) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, e.base+r.path, nil)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Body, req.ContentLength = once{bytes.NewReader(r.body)}, int64(len(r.body))
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "onced-go")
	req.Header.Set("Onced-Timeout", nodeTimeout(limit-r.wait).String())
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	a := &answer{sent: time.Now()}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a.status, a.header = res.StatusCode, res.Header
	a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	if len(a.body) > maxAnswerBytes {
		return nil, fmt.Errorf("%s: the answer is larger than %d bytes", e.base, maxAnswerBytes)
	}
	return a, nil
}

// nodeTimeout is what a node is given to decide when the try may take limit: a
// little less, so that its own "no decision" arrives, and says what is known.
func nodeTimeout(limit time.Duration) time.Duration {
	return max(time.Millisecond, (limit - min(limit/10, 500*time.Millisecond)).Truncate(time.Millisecond))
}

// neverSent tells whether err means that no byte of the call left.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// strange is an answer that no node of onced gives.
type strange struct{ text string }

func (e *strange) Error() string { return e.text }

func errStrange(e *endpoint, a *answer) error {
	return &strange{fmt.Sprintf("%s answered %d (%s), and not as a node of onced does", e.base, a.status, a.header.Get("Content-Type"))}
}

// refusal reads an answer that is no 2xx. final tells that asking again would
// be told the same.
func refusal(e *endpoint, a *answer) (problem *idem.Error, final bool, cause error) {
	var p idem.Problem
	if err := json.Unmarshal(a.body, &p); err == nil && p.Code != "" && p.Status == a.status {
		problem = problemError(&p)
		if problem.RetryAfter == 0 {
			problem.RetryAfter = retryAfter(a.header)
		}
		switch p.Code {
		case idem.CodeUnavailable, idem.CodeOverloaded, idem.CodeInternal:
			return problem, false, nil
		}
		return problem, true, nil
	}
	// Not a problem of ours: of a proxy in between, or of something else.
	cause = errStrange(e, a)
	switch a.status {
	case http.StatusRequestEntityTooLarge:
		return &idem.Error{Code: idem.CodeRequestTooLarge}, true, cause
	case http.StatusUnauthorized:
		return &idem.Error{Code: idem.CodeUnauthorized}, true, cause
	case http.StatusForbidden:
		return &idem.Error{Code: idem.CodeForbidden}, true, cause
	}
	return &idem.Error{
		Code: idem.CodeUnavailable, Applied: idem.AppliedUnknown, RetryAfter: retryAfter(a.header),
	}, false, cause
}

// problemError is p as errors.As finds it.
func problemError(p *idem.Problem) *idem.Error {
	err := &idem.Error{
		Code: p.Code, Detail: p.Detail, Applied: p.Applied,
		RetryAfter: time.Duration(p.RetryAfterMs) * time.Millisecond,
		Record:     p.Record, Verdict: p.Verdict, AttemptID: p.AttemptID, Key: p.Key, CorrelationID: p.CorrelationID,
	}
	if err.Detail == "" {
		err.Detail = p.Title
	}
	return err
}

// retryAfter reads the header in both its forms; 0 when it is not there, or
// over already.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(v, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
