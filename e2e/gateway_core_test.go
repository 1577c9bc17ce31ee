package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// The core-idempotency document, row by row, against three nodes and through the
// Go client. Where it is improved on (semantics.md section 10) the test says so.

// core is a cluster with a client of it.
type core struct {
	*nodes
	c *client.Client
}

func newCore(t *testing.T) *core {
	n := dev(t)
	c, err := client.New(client.WithEndpoints("http://"+address(n.port[0]), "http://"+address(n.port[1]), "http://"+address(n.port[2])))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &core{n, c}
}

type envelope struct {
	RecordCount int `json:"recordCount"`
}

// run is withIdempotency: it counts what ran.
func (c *core) run(call client.Call, ran *atomic.Int32, value envelope, err error) (client.Outcome[envelope], error) {
	return client.Do(context.Background(), c.c, call, func(context.Context, client.Attempt) (envelope, error) {
		ran.Add(1)
		return value, err
	})
}

func export(key string, request any) client.Call {
	return client.Call{Key: key, Operation: "export.generate", Request: request}
}

func TestCore_OutcomesAndErrorCodes(t *testing.T) {
	t.Parallel()
	c := newCore(t)
	var ran atomic.Int32
	two := envelope{2}
	refused := func(t *testing.T, call client.Call, want error, safe, wait bool) {
		t.Helper()
		before := ran.Load()
		_, err := c.run(call, &ran, two, nil)
		p, ok := errors.AsType[*idem.Error](err)
		if !errors.Is(err, want) || !ok || p.Code.SafeNewKey() != safe || p.Code.Retryable() != wait {
			t.Errorf("%v, want %v", err, want)
		}
		if ran.Load() != before {
			t.Error("it ran")
		}
	}
	t.Run("idempotency_key_missing: ask the client for one", func(t *testing.T) {
		refused(t, export("", nil), client.ErrKeyMissing, true, false)
	})
	t.Run("idempotency_key_invalid: fewer than 8 characters, or others", func(t *testing.T) {
		refused(t, export("seven77", nil), client.ErrKeyInvalid, true, false)
		refused(t, export("export/0001", nil), client.ErrKeyInvalid, true, false)
	})
	t.Run("idempotency_key_expired: an error, not a licence to run again", func(t *testing.T) {
		call := export("export:expired:1", nil)
		call.TTL = time.Millisecond
		if _, err := c.run(call, &ran, two, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it expires", func() bool {
			rec, err := c.c.Get(t.Context(), client.GetRequest{Key: call.Key})
			return err == nil && rec.Status == "expired"
		})
		for range 3 { // the document refuses once; here it is refused every time
			refused(t, call, client.ErrExpired, false, false)
		}
	})
	t.Run("idempotency_key_conflict: treat as a bug, never retry blindly", func(t *testing.T) {
		if _, err := c.run(export("export:conflict:1", map[string]int{"a": 1, "b": 2}), &ran, two, nil); err != nil {
			t.Fatal(err)
		}
		refused(t, export("export:conflict:1", map[string]int{"a": 1}), client.ErrConflict, false, false)
		other := export("export:conflict:1", map[string]int{"a": 1, "b": 2})
		other.Operation = "export.other"
		refused(t, other, client.ErrConflict, false, false)
	})
	t.Run("idempotency_in_flight: wait, then retry the same key", func(t *testing.T) {
		if _, err := c.c.Reserve(t.Context(), client.ReserveRequest{Key: "export:flight:1", Operation: "export.generate"}); err != nil {
			t.Fatal(err)
		}
		refused(t, export("export:flight:1", nil), client.ErrInFlight, false, true)
	})
	t.Run("idempotency_not_found: unknown key", func(t *testing.T) {
		for name, err := range map[string]error{
			"complete": second(c.c.Commit(t.Context(), client.CommitRequest{Key: "export:nothing:1", Token: "1"})),
			"fail":     second(c.c.Fail(t.Context(), client.FailRequest{Key: "export:nothing:1", Token: "1", ErrorCode: "x"})),
			"abandon":  second(c.c.Release(t.Context(), client.ReleaseRequest{Key: "export:nothing:1", Token: "1"})),
			"get":      second(c.c.Get(t.Context(), client.GetRequest{Key: "export:nothing:1"})),
		} {
			if !errors.Is(err, client.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestCore_Concurrency(t *testing.T) {
	t.Parallel()
	c := newCore(t)
	two := envelope{2}
	t.Run("same key, same payload, concurrently: one run, duplicate in flight", func(t *testing.T) {
		var ran, inFlight atomic.Int32
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := client.Do(t.Context(), c.c, export("export:twice:1", nil), func(context.Context, client.Attempt) (envelope, error) {
					ran.Add(1)
					<-gate
					return two, nil
				})
				if errors.Is(err, client.ErrInFlight) {
					inFlight.Add(1)
					close(gate)
				}
			})
		}
		wg.Wait()
		if ran.Load() != 1 || inFlight.Load() != 1 {
			t.Errorf("%d runs, %d in flight", ran.Load(), inFlight.Load())
		}
	})
	t.Run("retry after the first settled: replayed, work count stays 1", func(t *testing.T) {
		var ran atomic.Int32
		for i := range 3 {
			out, err := c.run(export("export:again:1", nil), &ran, two, nil)
			if err != nil || out.Value != two || out.Replayed != (i > 0) {
				t.Errorf("%+v %v", out, err)
			}
		}
		if ran.Load() != 1 {
			t.Errorf("%d runs", ran.Load())
		}
	})
	t.Run("two tabs sharing one storage: here, two clients on two nodes", func(t *testing.T) {
		var ran atomic.Int32
		for i := range 2 {
			other, err := client.New(client.WithEndpoints("http://" + address(c.port[i+1])))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			out, err := (&core{c.nodes, other}).run(export("export:tabs:1", nil), &ran, two, nil)
			if err != nil || out.Replayed != (i > 0) {
				t.Errorf("%+v %v", out, err)
			}
		}
		if ran.Load() != 1 {
			t.Errorf("%d runs", ran.Load())
		}
	})
	t.Run("first attempt failed or threw: recorded and replayed, never re-run", func(t *testing.T) {
		var ran atomic.Int32
		for i := range 3 {
			_, err := c.run(export("export:failed:1", nil), &ran, envelope{}, client.Failed("export_empty", errors.New("nothing to export")))
			failed, ok := errors.AsType[*client.FailedError](err)
			if !ok || failed.Code != "export_empty" || failed.Replayed != (i > 0) {
				t.Errorf("%v", err)
			}
		}
		// A throw that does not say that it failed for good is left uncertain
		// (section 10), and not run again either.
		for i := range 2 {
			_, err := c.run(export("export:threw:1", nil), &ran, envelope{}, errors.New("connection reset"))
			if i == 0 && !errors.Is(err, client.ErrUncertain) || i > 0 && !errors.Is(err, client.ErrInFlight) {
				t.Errorf("%v", err)
			}
		}
		if ran.Load() != 2 {
			t.Errorf("%d runs", ran.Load())
		}
	})
	t.Run("claim stuck in flight: only abandon, audited, frees the key", func(t *testing.T) {
		res, err := c.c.Reserve(t.Context(), client.ReserveRequest{Key: "export:stuck:1", Operation: "export.generate", Lease: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int32
		eventually(t, "the lease is over", func() bool {
			_, err := c.run(export("export:stuck:1", nil), &ran, two, nil)
			return errors.Is(err, client.ErrUncertain)
		})
		if _, err := c.c.Resolve(t.Context(), client.ResolveRequest{
			Key: "export:stuck:1", Token: res.Claim.Token, Verdict: "not_applied", Reason: "the tab is closed", Actor: "ann",
		}); err != nil {
			t.Fatal(err)
		}
		if a := c.get(0, "/v1/audit"); !strings.Contains(string(a.raw), "export:stuck:1") {
			t.Errorf("no audit: %s", a)
		}
		if out, err := c.run(export("export:stuck:1", nil), &ran, two, nil); err != nil || out.Replayed || ran.Load() != 1 {
			t.Errorf("%+v %v", out, err)
		}
		// abandon by its holder, of work that never began.
		if _, err := c.run(export("export:abandon:1", nil), &ran, two, client.NotStarted(errors.New("offline"))); !errors.Is(err, client.ErrNotStarted) {
			t.Errorf("%v", err)
		}
		if out, err := c.run(export("export:abandon:1", nil), &ran, two, nil); err != nil || out.Replayed {
			t.Errorf("%+v %v", out, err)
		}
	})
	t.Run("same key, different payload or operation: conflict, no replay of another's outcome", func(t *testing.T) {
		var ran atomic.Int32
		if _, err := c.run(export("export:other:1", 1), &ran, envelope{4711}, nil); err != nil {
			t.Fatal(err)
		}
		a := c.call(1, "default", "reserve", map[string]any{"key": "export:other:1", "operation": "export.generate", "request": 2})
		if a.Code != "idempotency_key_conflict" || strings.Contains(string(a.raw), "4711") {
			t.Errorf("%s", a)
		}
	})
	t.Run("duplicate after the ttl: expired, never a silent second run", func(t *testing.T) {
		var ran atomic.Int32
		call := export("export:ttl:1", nil)
		call.TTL = time.Millisecond
		if _, err := c.run(call, &ran, two, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it expires", func() bool {
			_, err := c.run(call, &ran, two, nil)
			return errors.Is(err, client.ErrExpired)
		})
		c.must(200, c.do(0, "POST", "/v1/sweep", ""))
		if _, err := c.run(call, &ran, two, nil); !errors.Is(err, client.ErrExpired) || ran.Load() != 1 {
			t.Errorf("%v, %d runs", err, ran.Load())
		}
	})
	t.Run("stale versions: expectedVersion differs, storage unchanged", func(t *testing.T) {
		res, err := c.c.Reserve(t.Context(), client.ReserveRequest{Key: "export:version:1"})
		if err != nil {
			t.Fatal(err)
		}
		commit := client.CommitRequest{Key: "export:version:1", Token: res.Claim.Token, ExpectedVersion: 9}
		if _, err := c.c.Commit(t.Context(), commit); !errors.Is(err, client.ErrStaleVersion) {
			t.Errorf("%v", err)
		}
		commit.ExpectedVersion = res.Record.Version
		if _, err := c.c.Commit(t.Context(), commit); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// The record of the document: key, operation, requestHash, status, response,
// createdAt, expiresAt, replays, correlationId.
func TestCore_RecordShape(t *testing.T) {
	t.Parallel()
	c := newCore(t)
	var ran atomic.Int32
	call := export("export:2026-09-26:1", map[string]any{"b": 1, "a": 2})
	call.CorrelationID = "corr-1"
	if _, err := c.run(call, &ran, envelope{2}, nil); err != nil {
		t.Fatal(err)
	}
	call.Request = map[string]any{"a": 2, "b": 1} // no order of members is a conflict
	if out, err := c.run(call, &ran, envelope{2}, nil); err != nil || !out.Replayed {
		t.Fatalf("%+v %v", out, err)
	}
	var rec *idem.Record
	eventually(t, "the replay is counted", func() bool {
		rec = c.record(2, "default", call.Key)
		return rec != nil && rec.Replays == 1
	})
	created, err1 := time.Parse(time.RFC3339, rec.CreatedAt)
	settled, err2 := time.Parse(time.RFC3339, rec.SettledAt)
	expires, err3 := time.Parse(time.RFC3339, rec.ExpiresAt)
	if err := errors.Join(err1, err2, err3); err != nil || !created.Before(expires) || expires.Sub(settled) != 24*time.Hour {
		t.Errorf("times: %v %+v", err, rec)
	}
	// The document says "completed", and counts the ttl from the claim; its FNV
	// hash is taken as it is in requestHash (section 10).
	if rec.Operation != "export.generate" || !strings.HasPrefix(rec.RequestHash, "sha256-") || rec.Status != "committed" ||
		string(rec.Response) != `{"recordCount":2}` || rec.CorrelationID != "corr-1" {
		t.Errorf("%+v", rec)
	}
	res, err := c.c.Reserve(t.Context(), client.ReserveRequest{Key: "export:2026-09-26:2", RequestHash: "req-37be50f9"})
	if err != nil || res.Record.RequestHash != "req-37be50f9" {
		t.Errorf("%v", err)
	}
	// A secret-shaped response is redacted before it is written.
	s, err := c.c.Commit(t.Context(), client.CommitRequest{Key: "export:2026-09-26:2", Token: res.Claim.Token, Response: map[string]string{"api_key": "x", "id": "7"}})
	if err != nil || string(s.Record.Response) != `{"api_key":"[REDACTED]","id":"7"}` || fmt.Sprint(s.Record.Redacted) != "[/api_key]" {
		t.Errorf("%+v %v", s, err)
	}
}

// The telemetry of the document, as counters by outcome: claimed, completed,
// failed, replayed, rejected with its code, swept.
func TestCore_Telemetry(t *testing.T) {
	t.Parallel()
	c := newCore(t)
	count := func(operation, outcome string) float64 {
		total := 0.0
		for i := range 3 {
			name := `onced_requests_total{namespace="default",operation="` + operation + `",outcome="` + outcome + `"}`
			if strings.Contains(string(c.get(i, "/metrics").raw), name) {
				total += c.metric(i, name)
			}
		}
		return total
	}
	var ran atomic.Int32
	short := export("telemetry:1", nil)
	short.TTL = time.Millisecond
	for _, step := range []struct {
		op, operation, outcome string
		do                     func()
	}{
		{"idempotency.claimed", "reserve", "reserved", func() { _, _ = c.c.Reserve(t.Context(), client.ReserveRequest{Key: "telemetry:0"}) }},
		{"idempotency.completed", "commit", "committed", func() { _, _ = c.run(short, &ran, envelope{1}, nil) }},
		{"idempotency.failed", "fail", "failed", func() { _, _ = c.run(export("telemetry:2", nil), &ran, envelope{}, client.Failed("x", nil)) }},
		{"idempotency.failed, re-served", "reserve", "replayed", func() { _, _ = c.run(export("telemetry:2", nil), &ran, envelope{}, nil) }},
		{"idempotency.replayed", "reserve", "replayed", func() {
			_, _ = c.run(export("telemetry:3", nil), &ran, envelope{1}, nil)
			_, _ = c.run(export("telemetry:3", nil), &ran, envelope{1}, nil)
		}},
		{"idempotency.rejected", "reserve", "idempotency_key_conflict", func() { _, _ = c.run(export("telemetry:3", 7), &ran, envelope{1}, nil) }},
	} {
		before := count(step.operation, step.outcome)
		step.do()
		if after := count(step.operation, step.outcome); after != before+1 {
			t.Errorf("%s: %v, then %v", step.op, before, after)
		}
	}
	eventually(t, "idempotency.swept", func() bool {
		a := c.must(200, c.do(0, "POST", "/v1/sweep", ""))
		return strings.Contains(string(a.raw), `"tombstoned"`) && c.record(0, "default", "telemetry:1").Status == "expired"
	})
}
