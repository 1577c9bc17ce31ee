package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onced/onced/client"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

const key = "order-0001"

func unavailable(applied idem.Applied, after time.Duration) error {
	return &idem.Error{Code: idem.CodeUnavailable, Applied: applied, RetryAfter: after}
}

// A node that cannot be reached, or answers 503, is followed by the next, at
// once; the one that answered is asked first from then on.
func TestFailOverIsStickyAndImmediate(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fate{
		"refused": {refused: true},
		"503":     {status: 503, body: `{"code":"idempotency_unavailable","status":503,"applied":"no","retryAfterMs":1000}`},
		"502":     {status: 502, body: "<html>bad gateway</html>"},
		"lost":    {lost: true},
		"404":     {status: 404, body: "nothing here"},
		"portal":  {status: 200, body: "<html>log in first</html>"},
		"moved":   {status: 302, header: http.Header{"Location": {"http://elsewhere/"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, w := newWire()
				w.fate = func(s sent, _ int) fate {
					if s.host == "n1" {
						return f
					}
					return fate{}
				}
				c := dial(t, w)
				start := time.Now()
				claim := mustReserve(t, c, key)
				if _, err := c.Commit(t.Context(), client.CommitRequest{Key: key, Token: claim.Token}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("the fail-over took %s", took)
				}
				calls := w.calls("")
				if len(calls) != 3 || calls[0].host != "n1" || calls[1].host != "n2" || calls[2].host != "n2" {
					t.Errorf("asked %v", hosts(calls))
				}
				if calls[0].member(t, "attemptId") != calls[1].member(t, "attemptId") {
					t.Error("the second try has another attemptId")
				}
				n.want(t, key, "committed")
			})
		})
	}
}

func hosts(calls []sent) (h []string) {
	for _, s := range calls {
		h = append(h, s.host)
	}
	return h
}

// TestB37: the answer to a reserve is lost after it was applied. The same
// attemptId is given the same claim.
func TestB37_LostReplyOfReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		w.fate = func(_ sent, nth int) fate { return fate{lost: nth < 3} }
		claim := mustReserve(t, dial(t, w), key)
		if !claim.Resumed || claim.Attempt != 1 {
			t.Errorf("resumed %v, attempt %d", claim.Resumed, claim.Attempt)
		}
		for _, s := range w.calls("reserve") {
			if s.member(t, "attemptId") != claim.AttemptID {
				t.Error("a try has an attemptId of its own")
			}
		}
		if got := idem.FormatToken(n.record(t, key).Token); got != claim.Token {
			t.Errorf("token %s, the record has %s", claim.Token, got)
		}
	})
}

// TestB37: the answer to a commit is lost after it was applied, the same token
// settles once and is told so again.
func TestB37_LostReplyOfCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		c := dial(t, w)
		claim := mustReserve(t, c, key)
		w.fate = func(_ sent, nth int) fate { return fate{lost: nth == 2} }
		s, err := c.Commit(t.Context(), client.CommitRequest{Key: key, Token: claim.Token, Response: map[string]int{"paid": 10}})
		if err != nil {
			t.Fatal(err)
		}
		if s.Outcome != "committed" || !s.Repeated || string(s.Record.Response) != `{"paid":10}` {
			t.Errorf("%+v", s)
		}
		if v := n.record(t, key).Version; v != 2 {
			t.Errorf("version %d: settled more than once", v)
		}
	})
}

// A release that was applied without its answer arriving, and on being repeated
// meets another attempt's claim, has done what it was for. TestB46: a release
// with an old token as such is told so, and the new claim stays.
func TestB46_ReleaseRepeatedAfterAnotherClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		c := dial(t, w)
		claim := mustReserve(t, c, key)
		other := dial(t, &wire{nodes: w.nodes})
		w.fate = func(s sent, nth int) fate {
			if nth == 3 {
				mustReserve(t, other, key)
			}
			return fate{lost: nth == 2}
		}
		if _, err := c.Release(t.Context(), client.ReleaseRequest{Key: key, Token: claim.Token}); err != nil {
			t.Errorf("the repeated release: %v", err)
		}
		_, err := c.Release(t.Context(), client.ReleaseRequest{Key: key, Token: claim.Token})
		is(t, err, client.ErrStaleToken)
		if r := n.record(t, key); r.Attempt != 2 || r.Status != fsm.Pending {
			t.Errorf("attempt %d is %s", r.Attempt, r.Status)
		}
	})
}

// A node that named a Retry-After is not asked before it is over.
func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fate{
		"body, in milliseconds": {status: 503, body: `{"code":"overloaded","status":503,"retryAfterMs":3500}`, header: http.Header{"Retry-After": {"4"}}},
		"header of a proxy":     {status: 429, body: "slow down", header: http.Header{"Retry-After": {"3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, w := newWire()
				w.fate = func(_ sent, nth int) fate {
					if nth <= 3 {
						return f
					}
					return fate{}
				}
				c := dial(t, w, client.WithBackOff(10*time.Millisecond, 10*time.Millisecond))
				start := time.Now()
				mustReserve(t, c, key)
				least := 3 * time.Second
				if f.status == 503 {
					least = 3500 * time.Millisecond
				}
				if took := time.Since(start); took < least || took > least+20*time.Millisecond {
					t.Errorf("asked again after %s, want %s", took, least)
				}
			})
		})
	}
}

// The node that answered is asked first by the next call, in whatever order a
// call came to it.
func TestTheNodeThatAnsweredIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		w.fate = func(s sent, nth int) fate {
			if nth > 3 {
				return fate{}
			}
			after := map[string]string{"n1": "5", "n2": "1", "n3": "5"}[s.host]
			return fate{status: 503, body: "busy", header: http.Header{"Retry-After": {after}}}
		}
		c := dial(t, w)
		mustReserve(t, c, "order-0001")
		mustReserve(t, c, "order-0002")
		if got := hosts(w.calls(""))[3:]; got[0] != "n2" || got[1] != "n2" {
			t.Errorf("asked %v", got)
		}
	})
}

// A call whose budget ends before a node may be asked again says so at once.
func TestRetryAfterBeyondTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		n.setFault(unavailable(idem.AppliedNo, 20*time.Second))
		start := time.Now()
		_, err := dial(t, w).Reserve(t.Context(), client.ReserveRequest{Key: key})
		is(t, err, client.ErrUnavailable)
		if took := time.Since(start); took != 0 {
			t.Errorf("told after %s", took)
		}
		if p := problem(t, err); p.Applied != idem.AppliedNo || p.RetryAfter != 20*time.Second || p.AttemptID == "" {
			t.Errorf("%+v", p)
		}
	})
}

// The pauses between rounds are drawn from the whole range up to their bound.
func TestFullJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		w.fate = func(sent, int) fate { return fate{refused: true} }
		c := dial(t, w, client.WithBackOff(time.Second, time.Second), client.WithBudget(200*time.Second))
		_, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key})
		is(t, err, client.ErrUnavailable)
		if p := problem(t, err); p.Applied != idem.AppliedNo {
			t.Errorf("nothing was ever sent, and applied is %q", p.Applied)
		}
		calls := w.calls("")
		var low, high int
		for i := 3; i < len(calls); i += 3 {
			switch gap := calls[i].at.Sub(calls[i-1].at); {
			case gap > time.Second+time.Millisecond:
				t.Fatalf("a pause of %s", gap)
			case gap < 250*time.Millisecond:
				low++
			case gap > 750*time.Millisecond:
				high++
			}
		}
		if low < 10 || high < 10 {
			t.Errorf("of %d pauses %d are in the lowest quarter and %d in the highest", len(calls)/3, low, high)
		}
	})
}

// The budget is the context's deadline, or the client's own without one. One
// silent node does not use it up.
func TestBudget(t *testing.T) {
	t.Parallel()
	t.Run("own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, w := newWire()
			w.fate = func(sent, int) fate { return fate{silent: true} }
			start := time.Now()
			_, err := dial(t, w).Reserve(t.Context(), client.ReserveRequest{Key: key})
			is(t, err, client.ErrUnavailable)
			if p := problem(t, err); p.Applied != idem.AppliedUnknown {
				t.Errorf("applied is %q", p.Applied)
			}
			if took := time.Since(start); took > client.DefaultBudget || took < client.DefaultBudget-time.Second {
				t.Errorf("took %s", took)
			}
		})
	})
	t.Run("of the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, w := newWire()
			w.fate = func(s sent, _ int) fate { return fate{silent: s.host == "n1"} }
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			start := time.Now()
			if _, err := dial(t, w).Reserve(ctx, client.ReserveRequest{Key: key}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != 1500*time.Millisecond {
				t.Errorf("the silent node took %s of 3s", took)
			}
			// The node's own "no decision" comes before the client turns away.
			if got := w.calls("")[0].header.Get("Onced-Timeout"); got != "1.35s" {
				t.Errorf("Onced-Timeout is %q", got)
			}
		})
	})
	t.Run("too short for a second node", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, w := newWire()
			w.fate = func(s sent, _ int) fate { return fate{silent: s.host == "n1", before: time.Millisecond} }
			c := dial(t, w)
			for i, want := range []error{client.ErrUnavailable, nil} {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				if _, err := c.Reserve(ctx, client.ReserveRequest{Key: key}); !errors.Is(err, want) {
					t.Errorf("call %d: %v", i, err)
				}
				cancel()
			}
			// Hanging up says nothing of the node.
			c = dial(t, w)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, err := c.Reserve(ctx, client.ReserveRequest{Key: key})
			is(t, err, client.ErrUnavailable, context.Canceled)
			w.fate = nil
			mustReserve(t, c, "order-0002")
			if got := hosts(w.calls("")); got[len(got)-1] != "n1" {
				t.Errorf("asked %v", got)
			}
		})
	})
	t.Run("over before", func(t *testing.T) {
		t.Parallel()
		_, w := newWire()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := dial(t, w).Reserve(ctx, client.ReserveRequest{Key: key})
		is(t, err, client.ErrUnavailable, context.Canceled)
		if p := problem(t, err); p.Applied != idem.AppliedNo || len(w.calls("")) != 0 {
			t.Errorf("%+v after %d calls", p, len(w.calls("")))
		}
	})
}

// What one try left unknown stays unknown, whatever the others say of
// themselves.
func TestUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		w.fate = func(_ sent, nth int) fate {
			if nth == 1 {
				return fate{lost: true}
			}
			n.setFault(unavailable(idem.AppliedNo, time.Minute))
			return fate{}
		}
		_, err := dial(t, w).Reserve(t.Context(), client.ReserveRequest{Key: key})
		is(t, err, client.ErrUnavailable)
		p := problem(t, err)
		if p.Applied != idem.AppliedUnknown {
			t.Errorf("applied is %q", p.Applied)
		}
		// The same call with its attemptId is given the claim it may have got.
		n.setFault(nil)
		w.fate = nil
		res, err := dial(t, w).Reserve(t.Context(), client.ReserveRequest{Key: key, AttemptID: p.AttemptID})
		if err != nil || !res.Claim.Resumed {
			t.Errorf("asked again: %+v, %v", res, err)
		}
	})
}

// Calls are not made so that net/http may repeat them on its own: the key is in
// the body alone, and the body cannot be got twice.
func TestBodiesAreSentByOurLoopAlone(t *testing.T) {
	t.Parallel()
	n, _ := newWire()
	h := n.handler("n1")
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.GetBody != nil || req.Body == nil || req.Body == http.NoBody || len(req.Header["Idempotency-Key"]) > 0 {
			t.Errorf("GetBody %v, headers %v", req.GetBody != nil, req.Header)
		}
		if req.ContentLength <= 0 {
			t.Errorf("Content-Length %d", req.ContentLength)
		}
		return (&wire{nodes: map[string]http.Handler{"n1": h}}).RoundTrip(req)
	})
	c, err := client.New(client.WithTransport(rt), client.WithoutDiscovery(), client.WithEndpoints("http://n1"))
	if err != nil {
		t.Fatal(err)
	}
	mustReserve(t, c, key)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A 2xx that does not grant this key to this attempt starts no run.
func TestGrantForAnotherIsNone(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"another attempt": `{"outcome":"reserved","token":"7","attemptId":"another-attempt-0001","attempt":1,"leaseRemaining":"30s","record":{"key":"order-0001"}}`,
		"another key":     `{"outcome":"reserved","token":"7","attemptId":"this-attempt-000001","attempt":1,"leaseRemaining":"30s","record":{"key":"order-0002"}}`,
		"no token":        `{"outcome":"reserved","attemptId":"this-attempt-000001","attempt":1,"leaseRemaining":"30s","record":{"key":"order-0001"}}`,
		"no lease":        `{"outcome":"reserved","token":"7","attemptId":"this-attempt-000001","attempt":1,"record":{"key":"order-0001"}}`,
		"another outcome": `{"outcome":"committed","token":"7","attemptId":"this-attempt-000001","attempt":1,"leaseRemaining":"30s","record":{"key":"order-0001"}}`,
		"empty replay":    `{"outcome":"replayed","record":{"key":"order-0001","status":"pending"}}`,
		"cut":             `{"outcome":"reserved","token":"7","attemptId":"this-attempt-000001"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, w := newWire()
			w.fate = func(sent, int) fate { return fate{status: 201, body: body} }
			res, err := dial(t, w).Reserve(t.Context(), client.ReserveRequest{Key: key, AttemptID: "this-attempt-000001"})
			is(t, err, client.ErrUnavailable)
			if res != nil || len(w.calls("")) != 3 {
				t.Errorf("%+v after %d calls", res, len(w.calls("")))
			}
		})
	}
}

// Every code of the contract is found by errors.Is, with what it was told by
// errors.As, and is not asked again unless waiting helps.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, want := range map[idem.Code]error{
		"idempotency_key_missing": client.ErrKeyMissing, "idempotency_key_invalid": client.ErrKeyInvalid,
		"idempotency_key_expired": client.ErrExpired, "idempotency_key_conflict": client.ErrConflict,
		"idempotency_in_flight": client.ErrInFlight, "idempotency_uncertain": client.ErrUncertain,
		"idempotency_cancelled": client.ErrCancelled, "idempotency_duplicate": client.ErrDuplicate,
		"idempotency_attempt_spent": client.ErrAttemptSpent, "idempotency_not_found": client.ErrNotFound,
		"idempotency_stale_token": client.ErrStaleToken, "idempotency_token_missing": client.ErrTokenMissing,
		"idempotency_already_settled": client.ErrAlreadySettled, "idempotency_stale_version": client.ErrStaleVersion,
		"quota_exceeded": client.ErrQuota, "invalid_request": client.ErrInvalid, "request_too_large": client.ErrTooLarge,
		"unauthorized": client.ErrUnauthorized, "forbidden": client.ErrForbidden,
		"namespace_not_found": client.ErrNamespaceNotFound, "namespace_retired": client.ErrNamespaceRetired,
	} {
		_, w := newWire()
		w.fate = func(sent, int) fate {
			return fate{status: 409, body: `{"code":"` + string(code) + `","status":409,"detail":"why","verdict":"failed",
				"retryAfterMs":1500,"record":{"status":"failed","version":3}}`}
		}
		_, err := dial(t, w).Reserve(t.Context(), client.ReserveRequest{Key: key})
		is(t, err, want)
		p := problem(t, err)
		if p.Code != code || p.Detail != "why" || p.Verdict != "failed" || p.RetryAfter != 1500*time.Millisecond || p.Record.Version != 3 {
			t.Errorf("%s: %+v", code, p)
		}
		if n := len(w.calls("")); n != 1 {
			t.Errorf("%s was asked %d times", code, n)
		}
		for _, other := range []error{client.ErrUnavailable, client.ErrOverloaded, client.ErrInternal} {
			if errors.Is(err, other) {
				t.Errorf("%s is %v too", code, other)
			}
		}
	}
}

// Of a call that is refused before it is sent nothing leaves.
func TestBadInputIsNotSent(t *testing.T) {
	t.Parallel()
	_, w := newWire()
	c := dial(t, w)
	ctx := t.Context()
	reserve := func(r client.ReserveRequest) error { _, err := c.Reserve(ctx, r); return err }
	for what, err := range map[string]error{
		"no key":     reserve(client.ReserveRequest{}),
		"short key":  reserve(client.ReserveRequest{Key: "short"}),
		"both":       reserve(client.ReserveRequest{Key: key, Request: 1, RequestHash: "x"}),
		"wait":       reserve(client.ReserveRequest{Key: key, Wait: -1}),
		"request":    reserve(client.ReserveRequest{Key: key, Request: make(chan int)}),
		"attempt id": reserve(client.ReserveRequest{Key: key, AttemptID: "short"}),
	} {
		if err == nil {
			t.Errorf("%s: taken", what)
			continue
		}
		problem(t, err)
	}
	_, err := c.Commit(ctx, client.CommitRequest{Key: key})
	is(t, err, client.ErrTokenMissing)
	_, err = c.Fail(ctx, client.FailRequest{Key: key, Token: "7"})
	is(t, err, client.ErrInvalid)
	_, err = c.Batch(ctx)
	is(t, err, client.ErrInvalid)
	if n := len(w.calls("")); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	for _, opt := range []client.Option{
		client.WithEndpoints("ftp://n1"), client.WithEndpoints("http://user:pw@n1"), client.WithEndpoints(""),
		client.WithNamespace("No"), client.WithBudget(0), client.WithToken("two words"), client.WithBackOff(2, 1), client.WithTransport(nil),
	} {
		if _, err := client.New(opt); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("an option was taken: %v", err)
		}
	}
}
