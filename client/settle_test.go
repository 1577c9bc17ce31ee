package client_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// The calls of a holder and of others, and what each answers.
func TestCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		c := dial(t, w)
		ctx := t.Context()

		claim := mustReserve(t, c, "settled-1")
		s, err := c.Commit(ctx, client.CommitRequest{Key: "settled-1", Token: claim.Token, Response: jsontext.Value(`{"b":1.50,"a":"\u0041"}`), ExpectedVersion: 1})
		if err != nil || s.Outcome != "committed" || s.Repeated || s.Index == 0 || string(s.Record.Response) != `{"b":1.50,"a":"\u0041"}` {
			t.Errorf("commit: %+v, %v", s, err)
		}
		_, err = c.Fail(ctx, client.FailRequest{Key: "settled-1", Token: claim.Token, ErrorCode: "late"})
		is(t, err, client.ErrAlreadySettled)
		if p := problem(t, err); p.Record == nil || string(p.Record.Response) != `{"b":1.50,"a":"\u0041"}` {
			t.Errorf("the recorded outcome is not told: %+v", p)
		}

		claim = mustReserve(t, c, "failed-01")
		_, err = c.Fail(ctx, client.FailRequest{Key: "failed-01", Token: claim.Token, ErrorCode: "declined", ExpectedVersion: 9})
		is(t, err, client.ErrStaleVersion)
		s, err = c.Fail(ctx, client.FailRequest{Key: "failed-01", Token: claim.Token, ErrorCode: "declined"})
		if err != nil || s.Outcome != "failed" || s.Record.ErrorCode != "declined" {
			t.Errorf("fail: %+v, %v", s, err)
		}
		res, err := c.Reserve(ctx, client.ReserveRequest{Key: "failed-01"})
		if err != nil || res.Outcome != client.Replayed || res.Claim != nil || res.Record.ErrorCode != "declined" {
			t.Errorf("replay: %+v, %v", res, err)
		}

		claim = mustReserve(t, c, "released-1")
		s, err = c.Release(ctx, client.ReleaseRequest{Key: "released-1", Token: claim.Token, Reason: "nothing ran"})
		if err != nil || s.Outcome != "released" {
			t.Errorf("release: %+v, %v", s, err)
		}
		_, err = c.Reserve(ctx, client.ReserveRequest{Key: "released-1", AttemptID: claim.AttemptID})
		is(t, err, client.ErrAttemptSpent)

		s, err = c.Cancel(ctx, client.CancelRequest{Key: "cancelled-1", Reason: "too late"})
		if err != nil || s.Outcome != "cancelled" {
			t.Errorf("cancel: %+v, %v", s, err)
		}
		_, err = c.Reserve(ctx, client.ReserveRequest{Key: "cancelled-1"})
		is(t, err, client.ErrCancelled)

		claim = mustReserve(t, c, "uncertain-1")
		_, err = c.Resolve(ctx, client.ResolveRequest{Key: "uncertain-1", Token: claim.Token, Verdict: "committed", Reason: "r", Actor: "a"})
		is(t, err, client.ErrInFlight)
		time.Sleep(31 * time.Second)
		rec, err := c.Get(ctx, client.GetRequest{Key: "uncertain-1"})
		if err != nil || rec.Status != "uncertain" {
			t.Errorf("get: %+v, %v", rec, err)
		}
		s, err = c.Resolve(ctx, client.ResolveRequest{Key: "uncertain-1", Token: rec.Token, Verdict: "committed", Response: 1, Reason: "seen at the bank", Actor: "ops"})
		if err != nil || s.Outcome != "resolved" || s.Record.Status != "committed" {
			t.Errorf("resolve: %+v, %v", s, err)
		}
		_, err = c.Get(ctx, client.GetRequest{Key: "never-seen-1"})
		is(t, err, client.ErrNotFound)
		other, err := c.In("not-made")
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Get(ctx, client.GetRequest{Key: "never-seen-1", Local: true, MinIndex: s.Index})
		is(t, err, client.ErrNamespaceNotFound)

		var keys []string
		req := client.ListRequest{Limit: 2, Local: true}
		for {
			page, err := c.List(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				keys = append(keys, r.Key)
			}
			if req.Cursor = page.NextCursor; req.Cursor == "" {
				break
			}
		}
		if got := strings.Join(keys, " "); got != "cancelled-1 failed-01 released-1 settled-1 uncertain-1" {
			t.Errorf("list: %s", got)
		}
		page, err := c.List(ctx, client.ListRequest{Status: "failed", Prefix: "fail"})
		if err != nil || len(page.Records) != 1 {
			t.Errorf("list: %+v, %v", page, err)
		}
	})
}

// A settlement that is too large is sent again without its response: the
// outcome is recorded, and says that the response is left out.
func TestTooLargeIsSettledWithoutItsResponse(t *testing.T) {
	t.Parallel()
	const answer = `{"outcome":"OUTCOME","record":{"key":"order-0001","status":"committed","responseOmitted":true}}`
	for name, test := range map[string]struct {
		size  int
		first int // calls that carry the response
	}{
		"refused by a node": {300, 1},
		"not sent at all":   {2 << 20, 0},
	} {
		for _, op := range []string{"commit", "fail"} {
			t.Run(op+" "+name, func(t *testing.T) {
				t.Parallel()
				_, w := newWire()
				c := dial(t, w)
				claim := mustReserve(t, c, key)
				outcome := map[string]string{"commit": "committed", "fail": "failed"}[op]
				w.fate = func(s sent, _ int) fate {
					switch {
					case len(s.body) > 300:
						return fate{status: 413, body: "too large, says a proxy"}
					case s.member(t, "responseOmitted") == "true" && s.member(t, "response") == "<nil>":
						return fate{status: 200, body: strings.ReplaceAll(answer, "OUTCOME", outcome)}
					}
					return fate{}
				}
				response := strings.Repeat("x", test.size)
				var s *client.Settlement
				var err error
				if op == "commit" {
					s, err = c.Commit(t.Context(), client.CommitRequest{Key: key, Token: claim.Token, Response: response})
				} else {
					s, err = c.Fail(t.Context(), client.FailRequest{Key: key, Token: claim.Token, ErrorCode: "x", Response: response})
				}
				if err != nil || !s.Record.ResponseOmitted {
					t.Fatalf("%+v, %v", s, err)
				}
				calls := w.calls(op)
				if len(calls) != test.first+1 {
					t.Errorf("%d calls", len(calls))
				}
				for _, s := range calls {
					if s.member(t, "token") != claim.Token {
						t.Error("another token")
					}
				}
			})
		}
	}
	// With nothing to leave out the refusal stands.
	_, w := newWire()
	w.fate = func(sent, int) fate { return fate{status: 413, body: "too large"} }
	_, err := dial(t, w).Commit(t.Context(), client.CommitRequest{Key: key, Token: "7"})
	is(t, err, client.ErrTooLarge)
	if n := len(w.calls("")); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A batch answers each operation as if it had come alone, also when its answer
// is lost on the way.
func TestBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		c := dial(t, w)
		held := mustReserve(t, c, "held-0001")
		w.fate = func(_ sent, nth int) fate { return fate{lost: nth == 2} }
		start := time.Now()
		res, err := c.Batch(t.Context(),
			client.ReserveRequest{Key: "batch-001", Request: 1},
			&client.ReserveRequest{Key: "held-0001"},
			client.ExtendRequest{Key: "held-0001", Token: held.Token, Lease: time.Minute},
			client.CommitRequest{Key: "held-0001", Token: held.Token, Response: "done"},
			client.ReserveRequest{Key: "held-0001"},
			client.CancelRequest{Key: "batch-002", Reason: "late"},
			client.ReleaseRequest{Key: "batch-001", Token: "7"},
			client.FailRequest{Key: "batch-003", Token: "7", ErrorCode: "x"},
			client.ResolveRequest{Key: "batch-003", Token: "7", Verdict: "committed", Reason: "r", Actor: "a"},
		)
		if err != nil || len(res) != 9 {
			t.Fatal(err)
		}
		r := res[0].Reservation
		if r == nil || r.Claim == nil || !r.Claim.Resumed || r.Claim.Lease.Deadline().Sub(start) != 30*time.Second {
			t.Errorf("0: %+v", res[0])
		}
		// Sent again after it was settled: replayed, and already settled.
		if res[1].Reservation == nil || res[1].Reservation.Outcome != client.Replayed {
			t.Errorf("1: %+v", res[1])
		}
		is(t, res[2].Err, client.ErrAlreadySettled)
		if res[3].Settlement == nil || res[4].Reservation == nil || res[5].Settlement == nil {
			t.Errorf("3 to 5: %+v", res[3:6])
		}
		is(t, res[6].Err, client.ErrStaleToken)
		is(t, res[7].Err, client.ErrNotFound)
		is(t, res[8].Err, client.ErrNotFound)
		n.want(t, "held-0001", "committed")
	})
}

// Operations that a node could not decide are asked again, and only those.
func TestBatchAsksAgainForWhatIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		c := dial(t, w)
		open := `{"status":503,"body":{"code":"idempotency_unavailable","status":503,"applied":"unknown","retryAfterMs":1000}}`
		done := `{"status":200,"body":{"outcome":"cancelled","record":{"key":"KEY","status":"cancelled"}}}`
		w.fate = func(_ sent, nth int) fate {
			switch nth {
			case 1:
				return fate{status: 200, body: `{"results":[` + strings.ReplaceAll(done, "KEY", "batch-001") + "," + open + "]}"}
			case 2:
				return fate{status: 200, body: `{"results":[` + open + "]}"}
			}
			return fate{}
		}
		start := time.Now()
		res, err := c.Batch(t.Context(), client.CancelRequest{Key: "batch-001"}, client.ReserveRequest{Key: "batch-002"})
		if err != nil || res[0].Settlement == nil || res[1].Reservation == nil {
			t.Fatalf("%+v, %v", res, err)
		}
		calls := w.calls("batch")
		if len(calls) != 3 || strings.Contains(calls[1].body, "batch-001") || calls[1].body != calls[2].body {
			t.Errorf("%+v", calls)
		}
		if took := time.Since(start); took < 2*time.Second {
			t.Errorf("asked again within %s", took)
		}
		w.fate = func(sent, int) fate { return fate{status: 200, body: `{"results":[` + open + "]}"} }
		res, err = c.Batch(t.Context(), client.ReserveRequest{Key: "batch-003"})
		if err != nil {
			t.Fatal(err)
		}
		is(t, res[0].Err, client.ErrUnavailable)
		if p := problem(t, res[0].Err); p.Applied != idem.AppliedUnknown || p.AttemptID == "" {
			t.Errorf("%+v", p)
		}
	})
}
