package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/client"
	"github.com/onced/onced/gateway"
	"github.com/onced/onced/idem"
)

// statusUpstream answers with the status that the query asks for, and counts.
func statusUpstream(t *testing.T) (url string, runs *atomic.Int32) {
	runs = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := runs.Add(1)
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		if status == 200 {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			fmt.Fprintf(w, `{"run":%d}`, n)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, runs
}

// B57: what each answer does to the key. The table of docs/gateways.md.
func TestB57_ClassificationTable(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{})
	for status, want := range map[int]string{
		200: "committed", 201: "committed", 202: "committed", 204: "committed", 299: "committed",
		301: "committed", 302: "committed", 303: "committed", 304: "committed", 307: "committed",
		400: "failed", 401: "failed", 402: "failed", 403: "failed", 404: "failed", 410: "failed", 422: "failed", 451: "failed",
		408: "pending", 409: "pending",
		425: "released", 429: "released",
		500: "pending", 501: "pending", 502: "pending", 503: "pending", 504: "pending", 599: "pending",
	} {
		key, path := fmt.Sprintf("status-%d", status), fmt.Sprintf("/x?status=%d", status)
		before := runs.Load()
		first := f.is(f.post(path, key, "{}"), status, "")
		f.want(t, key, want)
		again := f.post(path, key, "{}")
		ran := runs.Load() - before
		switch want {
		case "committed", "failed":
			f.same(first, again)
			if ran != 1 {
				t.Errorf("%d: ran %d times", status, ran)
			}
			if rec := f.record(t, key); want == "failed" && rec.ErrorCode != fmt.Sprintf("http_%d", status) {
				t.Errorf("%d: errorCode %q", status, rec.ErrorCode)
			}
		case "released":
			f.is(again, status, "")
			if ran != 2 {
				t.Errorf("%d: ran %d times, a released key runs again", status, ran)
			}
		default:
			f.is(again, 409, "idempotency_in_flight")
			if ran != 1 || again.header.Get("Retry-After") == "" {
				t.Errorf("%d: ran %d times, %v", status, ran, again.header)
			}
		}
	}
}

// A rule's word on a status, or on its class, comes before the default.
func TestTable_RulesOwnStatuses(t *testing.T) {
	t.Parallel()
	upstream, _ := statusUpstream(t)
	rule := gateway.Rule{Statuses: make([]gateway.StatusRule, 4)}
	for i, s := range []string{"5xx=release", "503=uncertain", "404=release", "2xx=uncertain"} {
		if err := rule.Statuses[i].UnmarshalText([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	f := newFront(t, upstream, rule)
	for status, want := range map[int]string{500: "released", 503: "pending", 404: "released", 403: "failed", 200: "pending"} {
		f.is(f.post(fmt.Sprintf("/x?status=%d", status), fmt.Sprintf("status-%d", status), "{}"), status, "")
		f.want(t, fmt.Sprintf("status-%d", status), want)
	}
}

// B53: the same key for another method, path, query, content type or body is a
// conflict, and shows nothing of the first; B54: JSON in another spelling is the
// same.
func TestB53_B54_Identity(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{})
	f.is(f.post("/a?status=200&x=1", "order-0001", `{"a":1,"b":[1,2]}`), 200, "")
	for name, g := range map[string]got{
		"method":       f.send("PUT", "/a?status=200&x=1", "order-0001", `{"a":1,"b":[1,2]}`),
		"path":         f.post("/b?status=200&x=1", "order-0001", `{"a":1,"b":[1,2]}`),
		"query":        f.post("/a?status=200&x=2", "order-0001", `{"a":1,"b":[1,2]}`),
		"query order":  f.post("/a?x=1&status=200", "order-0001", `{"a":1,"b":[1,2]}`),
		"content type": f.post("/a?status=200&x=1", "order-0001", `{"a":1,"b":[1,2]}`, "Content-Type", "application/json; charset=utf-8"),
		"body":         f.post("/a?status=200&x=1", "order-0001", `{"a":1,"b":[2,1]}`),
		"no body":      f.post("/a?status=200&x=1", "order-0001", ""),
		"big number":   f.post("/a?status=200&x=1", "order-0001", `{"a":9007199254740993,"b":[1,2]}`),
	} {
		if g.status != 422 || g.code != "idempotency_key_conflict" || strings.Contains(string(g.body), "run") {
			t.Errorf("%s: %d %s", name, g.status, g.body)
		}
	}
	for _, body := range []string{`{"b":[1,2],"a":1}`, ` { "a" : 1.0, "b":[1,2] } `} {
		if g := f.is(f.post("/a?status=200&x=1", "order-0001", body), 200, ""); g.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s ran", body)
		}
	}
	// Other bodies count byte for byte.
	f.is(f.post("/a?status=200", "order-0002", "a=1&b=2", "Content-Type", "application/x-www-form-urlencoded"), 200, "")
	f.is(f.post("/a?status=200", "order-0002", "b=2&a=1", "Content-Type", "application/x-www-form-urlencoded"), 422, "idempotency_key_conflict")
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs", n)
	}
	if rec := f.record(t, "order-0001"); rec.Operation != "POST /a" {
		t.Errorf("operation %q", rec.Operation)
	}
	long := "/" + strings.Repeat("x", 200)
	f.is(f.post(long+"?status=200", "order-0003", ""), 200, "")
	f.is(f.post(long+"y?status=200", "order-0003", ""), 422, "idempotency_key_conflict")
}

// B55 and section 3, row 1: no key, a malformed one, two that differ.
func TestB55_Keys(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	var rule gateway.Rule
	rule.Keys = []gateway.KeySource{{Kind: "body", Name: "/meta/key"}, {Kind: "header", Name: "Idempotency-Key"}, {Kind: "header", Name: "X-Request-Key"}}
	f := newFront(t, upstream, rule)
	const path = "/x?status=201"
	for name, c := range map[string]struct {
		g    got
		code string
	}{
		"none":           {f.post(path, "", `{}`), "idempotency_key_missing"},
		"empty":          {f.post(path, "", `{}`, "Idempotency-Key", ""), "idempotency_key_missing"},
		"spaces":         {f.post(path, "   ", `{}`), "idempotency_key_missing"},
		"short":          {f.post(path, "abc", `{}`), "idempotency_key_invalid"},
		"long":           {f.post(path, strings.Repeat("k", 257), `{}`), "idempotency_key_invalid"},
		"characters":     {f.post(path, "order/0001", `{}`), "idempotency_key_invalid"},
		"list":           {f.post(path, "order-0001, order-0002", `{}`), "idempotency_key_invalid"},
		"body null":      {f.post(path, "order-0001", `{"meta":{"key":null}}`), "idempotency_key_missing"},
		"body number":    {f.post(path, "", `{"meta":{"key":12345678}}`), "idempotency_key_invalid"},
		"body short":     {f.post(path, "order-0001", `{"meta":{"key":"x"}}`), "idempotency_key_invalid"},
		"differ":         {f.post(path, "order-0001", `{"meta":{"key":"order-0002"}}`), "idempotency_key_invalid"},
		"headers differ": {f.post(path, "order-0001", `{}`, "X-Request-Key", "order-0002"), "idempotency_key_invalid"},
		"member twice":   {f.post(path, "order-0001", `{"meta":{"key":"order-0001"},"meta":{"key":"order-0002"}}`), "invalid_request"},
		"malformed":      {f.post(path, "order-0001", `{"meta":`), "invalid_request"},
		"typed as text":  {f.post(path, "order-0001", `{"meta":{"key":"order-0002"}}`, "Content-Type", "text/plain"), "idempotency_key_invalid"},
	} {
		if c.g.status != 400 || c.g.code != c.code {
			t.Errorf("%s: %d %s %s", name, c.g.status, c.g.code, c.g.body)
		}
	}
	if n := runs.Load(); n != 0 {
		t.Fatalf("the upstream was called %d times", n)
	}
	f.is(f.post(path, `"order-0001"`, `{"meta":{"key":"order-0001"}}`), 201, "") // the quoted form names the same
	f.is(f.post(path, "", `{"meta":{"key":"order-0002"}}`), 201, "")
	f.is(f.post(path, "", `{}`, "X-Request-Key", "order-0003"), 201, "")
	// Others pass through, with or without a key.
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		f.is(f.send(method, path, "x", ""), 201, "")
	}
}

// Cluster away: 503 with Retry-After, and nothing is called.
func TestB66_ClusterAway(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{})
	f.set(func() { f.fault = &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedNo} })
	if g := f.is(f.post("/x?status=200", "order-0001", ""), 503, "idempotency_unavailable"); g.header.Get("Retry-After") == "" {
		t.Errorf("%v", g.header)
	}
	// However long a duplicate would wait for another's answer.
	waits := newFront(t, upstream, gateway.Rule{OnDuplicate: gateway.Wait, Wait: time.Hour})
	waits.set(func() { waits.fault = &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedNo} })
	waits.is(waits.post("/x?status=200", "order-0001", ""), 503, "idempotency_unavailable")
	f.cluster.server.CloseClientConnections()
	f.cluster.server.Listener.Close()
	began := time.Now()
	f.is(f.post("/x?status=200", "order-0001", ""), 503, "idempotency_unavailable")
	t.Logf("answered after %s", time.Since(began))
	f.is(f.send("GET", "/x?status=200", "", ""), 200, "") // reads pass through all the same
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A body that is larger than what is guarded is refused, whether or not its
// length was told.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{MaxRequestBody: 10})
	f.is(f.post("/x?status=200", "order-0001", "12345678901", "Content-Type", "text/plain"), 413, "request_too_large")
	req, _ := http.NewRequest("POST", f.server.URL+"/x?status=200", io.MultiReader(strings.NewReader("12345678901")))
	req.Header.Set("Idempotency-Key", "order-0001")
	f.is(f.do(req), 413, "request_too_large")
	if runs.Load() != 0 {
		t.Error("ran")
	}
	f.is(f.post("/x?status=200", "order-0001", "1234567890", "Content-Type", "text/plain"), 200, "")
}

// What is the gateway's own trouble is no business of the caller.
func TestRefusals_OwnTrouble(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{Namespace: "nowhere"})
	f.is(f.post("/x?status=200", "order-0001", ""), 503, "idempotency_unavailable")
	if runs.Load() != 0 {
		t.Error("ran")
	}
}

// A settlement that does not get through loses neither the answer nor the
// outcome: the caller has the first after settleWait, the record the second when
// the cluster is back.
func TestSettlementIsLate(t *testing.T) {
	t.Parallel()
	upstream, runs := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{})
	f.set(func() {
		f.settled = func() error { return &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedUnknown} }
	})
	g := f.is(f.post("/x?status=201", "order-0001", ""), 201, "")
	if g.header.Get("Onced-Outcome") != "unrecorded" {
		t.Errorf("%v", g.header)
	}
	f.is(f.post("/x?status=201", "order-0001", ""), 409, "idempotency_in_flight")
	f.set(func() { f.settled = nil })
	eventually(t, "the outcome is recorded", func() bool { return f.record(t, "order-0001").Status == "committed" })
	f.same(g, f.post("/x?status=201", "order-0001", ""))
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// Duplicates: replay, reject, wait.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	arrived := make(chan struct{}, 10)
	handler := func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-gate
		w.WriteHeader(201)
	}
	t.Run("reject", func(t *testing.T) {
		upstream, _ := statusUpstream(t)
		f := newFront(t, upstream, gateway.Rule{OnDuplicate: gateway.Reject})
		f.is(f.post("/x?status=201", "order-0001", ""), 201, "")
		g := f.is(f.post("/x?status=201", "order-0001", ""), 409, "idempotency_duplicate")
		if !strings.Contains(string(g.body), `"status":"committed"`) {
			t.Errorf("%s", g.body)
		}
	})
	t.Run("wait", func(t *testing.T) {
		f := newWrapped(t, handler, gateway.Rule{OnDuplicate: gateway.Wait})
		answers := make(chan got, 3)
		for range 3 {
			go func() { answers <- f.post("/x", "order-0001", "") }()
		}
		<-arrived
		close(gate)
		replayed := 0
		for range 3 {
			g := f.is(<-answers, 201, "")
			if g.header.Get("Idempotent-Replayed") == "true" {
				replayed++
			}
		}
		if replayed != 2 || len(arrived) != 0 {
			t.Errorf("%d replays, %d more runs", replayed, len(arrived))
		}
	})
}

// The namespace must replay for a rule that replays; the error names the
// command.
func TestCheck(t *testing.T) {
	t.Parallel()
	upstream, _ := statusUpstream(t)
	f := newFront(t, upstream, gateway.Rule{Namespace: "orders"})
	var policy *gateway.PolicyError
	if err := f.guard.Check(t.Context()); !errors.As(err, &policy) || !strings.Contains(err.Error(), "onced ns set orders") {
		t.Errorf("no namespace: %v", err)
	}
	f.policy(t, "orders", `{"preset":"gateway"}`)
	if err := f.guard.Check(t.Context()); !errors.As(err, &policy) || policy.Command != "onced ns set orders --on-duplicate replay" {
		t.Errorf("rejects: %v", err)
	}
	// The cluster's reject is the caller's 409 all the same.
	f.is(f.post("/x?status=201", "order-0001", ""), 201, "")
	f.is(f.post("/x?status=201", "order-0001", ""), 409, "idempotency_duplicate")
	if err := f.guard.CheckRules(t.Context(), []gateway.Rule{{Namespace: "orders", OnDuplicate: gateway.Reject}}); err != nil {
		t.Errorf("reject: %v", err)
	}
	f.policy(t, "orders", `{"onDuplicate":"replay"}`)
	if err := f.guard.Check(t.Context()); err != nil {
		t.Error(err)
	}
	f.set(func() { f.fault = &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedNo} })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := f.guard.Check(ctx); !errors.Is(err, client.ErrUnavailable) || errors.As(err, &policy) {
		t.Errorf("away: %v", err)
	}
}
