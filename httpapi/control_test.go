package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	g := e.do("PUT", "/v1/namespaces/orders", `{"preset":"gateway","ttl":"48h","maxRecords":10,"redact":true}`).ok(201)
	if g.header.Get("ETag") != `"1"` || g.str("name") != "orders" || g.str("policy", "ttl") != "48h" || g.str("policy", "onDuplicate") != "reject" ||
		g.str("policy", "retention") != "0s" || g.at("policy", "maxRecords") != 10.0 || g.at("policy", "redact") != true || g.at("policy", "preset") != nil {
		t.Errorf("made: %s %v", g.raw, g.header)
	}
	g = e.do("PUT", "/v1/namespaces/orders", `{"onDuplicate":"replay"}`, "If-Match", `"1"`).ok(200)
	if g.header.Get("ETag") != `"2"` || g.str("policy", "ttl") != "48h" || g.str("policy", "onDuplicate") != "replay" {
		t.Errorf("changed: %s", g.raw)
	}
	e.unchanged(func() {
		e.do("PUT", "/v1/namespaces/orders", `{"ttl":"1h"}`, "If-Match", `"1"`).problem(412, idem.CodeStaleVersion).says("2")
		e.do("PUT", "/v1/namespaces/fresh", `{}`, "If-Match", `"1"`).problem(412, idem.CodeStaleVersion)
		e.do("DELETE", "/v1/namespaces/orders", "", "If-Match", `"1"`).problem(412, idem.CodeStaleVersion)
		for body, says := range map[string]string{
			``: "body", `[]`: "body", `{"TTL":"1h"}`: "TTL", `{"ttl":1}`: "ttl", `{"ttl":"0s"}`: "ttl", `{"ttl":"8761h"}`: "ttl",
			`{"retention":"-1s"}`: "retention", `{"lease":"0s"}`: "lease", `{"lease":"2h"}`: "lease", `{"maxLease":"x"}`: "maxLease",
			`{"onLeaseExpiry":"reject"}`: "onLeaseExpiry", `{"onExpired":"replay"}`: "onExpired", `{"onDuplicate":""}`: "onDuplicate",
			`{"redact":"on"}`: "redact", `{"maxResponseBytes":262145}`: "maxResponseBytes", `{"maxResponseBytes":-1}`: "maxResponseBytes",
			`{"maxRecords":-1}`: "maxRecords", `{"maxBytes":1.5}`: "maxBytes", `{"preset":"lax"}`: "preset", `{"fingerprintWindow":"25h"}`: "fingerprintWindow",
			`{"ttl":"1h","ttl":"2h"}`: "ttl", `{"horizon":1}`: "horizon",
		} {
			e.do("PUT", "/v1/namespaces/other", body).problem(400, idem.CodeInvalidRequest).says(says)
		}
		e.do("DELETE", "/v1/namespaces/default", "").problem(400, idem.CodeInvalidRequest).says("default")
		e.do("DELETE", "/v1/namespaces/nobody", "").problem(404, idem.CodeNamespaceNotFound)
	})
	e.do("POST", "/v1/namespaces/orders/reserve", `{"key":"order-key-0001"}`).ok(201)
	g = e.do("GET", "/v1/namespaces", "").ok(200)
	names, _ := g.at("namespaces").([]any)
	if len(names) != 2 || names[1].(map[string]any)["name"] != "orders" {
		t.Errorf("list: %s", g.raw)
	}
	g = e.do("GET", "/v1/namespaces/orders", "").ok(200)
	if g.header.Get("ETag") != `"2"` || g.header.Get("Onced-Index") == "" {
		t.Errorf("get: %v", g.header)
	}
	e.do("DELETE", "/v1/namespaces/orders", "").problem(409, idem.CodeNamespaceNotEmpty)
	e.do("DELETE", "/v1/namespaces/orders?force=false", "").problem(409, idem.CodeNamespaceNotEmpty)
	if g = e.do("DELETE", "/v1/namespaces/orders?force=true", "").ok(204); g.raw != "" {
		t.Errorf("204 with a body: %q", g.raw)
	}
	e.do("GET", "/v1/namespaces/orders/records/order-key-0001", "").problem(410, idem.CodeNamespaceRetired)
	e.do("GET", "/v1/namespaces/orders/records", "").problem(410, idem.CodeNamespaceRetired)
}

func TestRecordList(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, key := range []string{"list-a-0001", "list-a-0002", "list-b-0001", "list-b-0002", "other-0001"} {
		token := e.reserve(key, attemptA)
		if strings.HasPrefix(key, "list-a") {
			e.post("commit", `{"key":"`+key+`","token":"`+token+`"}`).ok(200)
		}
	}
	keys := func(query string) (string, string) {
		g := e.do("GET", "/v1/namespaces/default/records"+query, "").ok(200)
		var names []string
		for _, r := range g.at("records").([]any) {
			names = append(names, r.(map[string]any)["key"].(string))
		}
		return strings.Join(names, " "), g.str("nextCursor")
	}
	for query, want := range map[string]string{
		"":                          "list-a-0001 list-a-0002 list-b-0001 list-b-0002 other-0001",
		"?prefix=list-":             "list-a-0001 list-a-0002 list-b-0001 list-b-0002",
		"?status=committed":         "list-a-0001 list-a-0002",
		"?status=pending&limit=10":  "list-b-0001 list-b-0002 other-0001",
		"?prefix=zzz":               "",
		"?consistency=local":        "list-a-0001 list-a-0002 list-b-0001 list-b-0002 other-0001",
		"?prefix=list-b&minIndex=1": "list-b-0001 list-b-0002",
	} {
		if got, next := keys(query); got != want || next != "" {
			t.Errorf("%s: %q, next %q", query, got, next)
		}
	}
	var all []string
	for cursor, pages := "", 0; pages < 9; pages++ {
		query := "?limit=2"
		if cursor != "" {
			query += "&cursor=" + cursor
		}
		page, next := keys(query)
		all = append(all, page)
		if cursor = next; next == "" {
			break
		}
	}
	if got := strings.Join(all, " "); got != "list-a-0001 list-a-0002 list-b-0001 list-b-0002 other-0001" {
		t.Errorf("pages: %q", got)
	}
	// A page ends early rather than grow without bound, and loses nothing.
	e.namespace("wide", `{"maxResponseBytes":262144,"redact":false}`)
	for i := range 20 {
		key := "wide-key-00" + string(rune('a'+i))
		token := e.do("POST", "/v1/namespaces/wide/reserve", `{"key":"`+key+`"}`).ok(201).str("token")
		e.do("POST", "/v1/namespaces/wide/commit", `{"key":"`+key+`","token":"`+token+`","response":"`+strings.Repeat("w", 262142)+`"}`).ok(200)
	}
	g := e.do("GET", "/v1/namespaces/wide/records", "").ok(200)
	first := len(g.at("records").([]any))
	if first >= 20 || g.str("nextCursor") == "" {
		t.Fatalf("a page of %d records and %d bytes", first, len(g.raw))
	}
	g = e.do("GET", "/v1/namespaces/wide/records?cursor="+g.str("nextCursor"), "").ok(200)
	if n := len(g.at("records").([]any)); first+n != 20 {
		t.Errorf("%d and %d of 20 records", first, n)
	}
}

func TestSweepAndAudit(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, key := range []string{"swept-key-0001", "swept-key-0002"} {
		token := e.reserve(key, attemptA)
		e.post("commit", `{"key":"`+key+`","token":"`+token+`","response":1}`).ok(200)
	}
	e.node.advance(25 * time.Hour)
	e.unchanged(func() {
		for body, says := range map[string]string{`{"limit":0}`: "limit", `{"limit":10001}`: "limit", `{"limit":"1"}`: "limit", `{"all":true}`: "all", `[]`: "body"} {
			e.do("POST", "/v1/sweep", body).problem(400, idem.CodeInvalidRequest).says(says)
		}
	})
	g := e.do("POST", "/v1/sweep", `{"limit":1}`).ok(200)
	if g.at("dropped") != 0.0 || g.at("tombstoned") != 1.0 || g.at("remaining") != 1.0 {
		t.Errorf("one of two: %s", g.raw)
	}
	g = e.do("POST", "/v1/sweep", "").ok(200)
	if g.at("tombstoned") != 1.0 || g.at("remaining") != 0.0 {
		t.Errorf("the rest: %s", g.raw)
	}
	e.node.advance(8 * 24 * time.Hour)
	if g = e.do("POST", "/v1/sweep", `{}`).ok(200); g.at("dropped") != 2.0 {
		t.Errorf("removal: %s", g.raw)
	}
	for _, key := range []string{"audit-key-0001", "audit-key-0002", "audit-key-0003"} {
		e.post("cancel", `{"key":"`+key+`","reason":"because \"so\""}`, "X-Correlation-ID", "corr-"+key).ok(200)
	}
	g = e.do("GET", "/v1/audit?limit=2", "").ok(200)
	entries := g.at("entries").([]any)
	first := entries[0].(map[string]any)
	if len(entries) != 2 || first["action"] != "cancel" || first["key"] != "audit-key-0001" || first["reason"] != `because "so"` || first["correlationId"] != "corr-audit-key-0001" {
		t.Errorf("audit: %s", g.raw)
	}
	g = e.do("GET", "/v1/audit?limit=2&cursor="+g.str("nextCursor"), "").ok(200)
	if n := len(g.at("entries").([]any)); n != 1 || g.at("nextCursor") != nil {
		t.Errorf("the last page: %s", g.raw)
	}
}

func TestHealthStatsCluster(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	if g := e.do("GET", "/healthz", "").ok(200); g.raw != `{"status":"ok"}`+"\n" {
		t.Errorf("healthz: %s", g.raw)
	}
	if g := e.do("GET", "/readyz", "").ok(200); g.str("status") != "ready" || g.at("checks") != nil {
		t.Errorf("readyz: %s", g.raw)
	}
	e.node.set(func() {
		e.node.leader = ""
		e.node.checks[0] = idem.Check{Name: "leader", Detail: "none is known: 1 of 3 nodes reachable"}
	})
	g := e.do("GET", "/readyz", "").ok(503)
	if g.str("reason") != "leader: none is known: 1 of 3 nodes reachable" || g.header.Get("Retry-After") != "1" {
		t.Errorf("readyz: %s", g.raw)
	}
	for _, q := range []string{"?verbose", "?verbose=true"} {
		g = e.do("GET", "/readyz"+q, "").ok(503)
		if checks, _ := g.at("checks").([]any); len(checks) != 2 {
			t.Errorf("readyz%s: %s", q, g.raw)
		}
	}
	e.do("GET", "/healthz", "").ok(200)
	if g = e.do("GET", "/v1/cluster", "").ok(200); !strings.Contains(g.raw, `"leader":null`) || !strings.Contains(g.raw, `"nodes":[]`) {
		t.Errorf("cluster: %s", g.raw)
	}
	e.node.set(func() { e.node.leader = "n1" })
	e.reserve("stats-key-0001", attemptA)
	g = e.do("GET", "/v1/stats", "").ok(200)
	if g.at("namespaces", "default", "pending") != 1.0 || g.at("appliedIndex") != 1.0 || len(g.str("stateHash")) != 16 || g.at("logBytes") != 4096.0 {
		t.Errorf("stats: %s", g.raw)
	}
	g = e.do("GET", "/", "").ok(200)
	for _, part := range []string{"onced v0.0.0-test", "n1", "http://127.0.0.1:4747", "/openapi.json"} {
		if !strings.Contains(g.raw, part) {
			t.Errorf("the root lacks %q: %s", part, g.raw)
		}
	}
}

// Labels are bounded: no caller can make up a series.
func TestMetrics(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("known", `{}`)
	e.do("POST", "/v1/namespaces/known/reserve", `{"key":"metric-key-0001"}`).ok(201)
	e.do("POST", "/v1/namespaces/known/reserve", `{"key":"metric-key-0001"}`).ok(409)
	e.do("POST", "/v1/namespaces/known/reserve", `{"key":"x"}`).ok(400)
	e.do("POST", "/v1/namespaces/known/batch", `{"operations":[{"op":"reserve","key":"metric-key-0002"},{"op":"x"}]}`).ok(200)
	for _, ns := range []string{"made-up-1", "made-up-2"} {
		e.do("POST", "/v1/namespaces/"+ns+"/reserve", `{"key":"metric-key-0001"}`).ok(404)
		e.do("POST", "/v1/namespaces/"+ns+"/reserve", `{"key":"x"}`).ok(400)
		e.do("GET", "/v1/namespaces/"+ns+"/records", "").ok(404)
	}
	e.do("PUT", "/v1/namespaces/made-up-3", `{"lease":"2h"}`).ok(400)
	e.do("PUT", "/v1/namespaces/made-up-4", `{}`, "If-Match", `"1"`).ok(412)
	e.do("PUT", "/v1/namespaces/made-up-4", `{"surprise":1}`).ok(400)
	e.do("DELETE", "/v1/namespaces/made-up-4", "").ok(404)
	e.do("BREW", "/made/up", "").ok(404)
	e.namespace("brief", `{}`)
	e.do("DELETE", "/v1/namespaces/brief", "").ok(204)
	e.do("POST", "/v1/namespaces/brief/reserve", `{"key":"x"}`).ok(400) // no longer a label
	text := e.do("GET", "/metrics", "").ok(200).raw
	for _, line := range []string{
		`onced_requests_total{namespace="known",operation="reserve",outcome="reserved"} 2`,
		`onced_requests_total{namespace="known",operation="reserve",outcome="idempotency_in_flight"} 1`,
		`onced_requests_total{namespace="known",operation="reserve",outcome="idempotency_key_invalid"} 1`,
		`onced_requests_total{namespace="known",operation="batch",outcome="batch"} 1`,
		`onced_requests_total{namespace="",operation="reserve",outcome="namespace_not_found"} 2`,
		`onced_requests_total{namespace="",operation="unrouted",outcome="route_not_found"} 1`,
		`onced_request_duration_seconds_count{operation="reserve"} 8`,
		`onced_build_info{version="v0.0.0-test"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, `{namespace="brief",operation="reserve"`) {
		t.Error("a deleted namespace is still a label")
	}
	if strings.Contains(text, "made-up") || strings.Contains(text, "BREW") || strings.Contains(text, "metric-key") {
		t.Error("a caller's text became a label")
	}
}

// A caller that hangs up takes its reserve back from the queue, but not its
// commit: once that is here it should be recorded (B48).
func TestB48_HangUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op, body string
		ended    bool
	}{
		{"reserve", `{"key":"hang-key-0001"}`, true},
		{"commit", `{"key":"hang-key-0001","token":"5"}`, false},
		{"batch", `{"operations":[{"op":"commit","key":"hang-key-0001","token":"5"}]}`, false},
	} {
		t.Run(c.op, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t)
			hold := make(chan struct{})
			e.node.set(func() { e.node.hold = hold })
			ctx, hangUp := context.WithCancel(context.Background())
			req, err := http.NewRequestWithContext(ctx, "POST", e.url+"/v1/namespaces/default/"+c.op, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if res, err := e.http.Do(req); err == nil {
					res.Body.Close()
				}
			}()
			waitFor(t, func() bool {
				e.node.mu.Lock()
				defer e.node.mu.Unlock()
				return len(e.node.waits) == 1
			})
			hangUp()
			<-gone
			waitFor(t, func() bool { // the server has noticed
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.contexts[0].Err() != nil
			})
			decided := func() bool {
				e.node.mu.Lock()
				defer e.node.mu.Unlock()
				return len(e.node.ctxErrs) == 1
			}
			if c.ended {
				waitFor(t, decided) // by its context alone
			} else if decided() {
				t.Error("the hang-up ended the decision")
			}
			close(hold)
			waitFor(t, decided)
			e.node.mu.Lock()
			defer e.node.mu.Unlock()
			if ended := e.node.ctxErrs[0] == context.Canceled; ended != c.ended {
				t.Errorf("the context of %s was cancelled: %v, want %v", c.op, ended, c.ended)
			}
		})
	}
}

// The deadline is the shorter of the server's and the caller's, plus the wait.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *Options) { o.RequestTimeout = 300 * time.Millisecond })
	e.reserve("dead-key-0001", attemptA)
	// The held node decides nothing until the context ends: the call is over
	// by its own deadline.
	e.node.set(func() { e.node.hold = make(chan struct{}) })
	for _, h := range [][]string{{"Onced-Timeout", "1ms"}, {"Onced-Timeout", "24h"}, nil} {
		e.post("commit", `{"key":"dead-key-0001","token":"5"}`, h...)
	}
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	for i, most := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond} {
		if left := e.node.lefts[i+1]; left > most {
			t.Errorf("call %d has %v left, want at most %v", i, left, most)
		}
	}
	for _, err := range e.node.ctxErrs[1:] {
		if err != context.DeadlineExceeded {
			t.Errorf("the context ended by %v", err)
		}
	}
}

// The Node is asked to wait as long as the caller said.
func TestWaitIsPassedOn(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.post("reserve", `{"key":"wait-key-0001","wait":"1m"}`).ok(201)
	e.post("reserve", `{"key":"wait-key-0002"}`).ok(201)
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	if e.node.waits[0] != time.Minute || e.node.waits[1] != 0 {
		t.Errorf("waits %v", e.node.waits)
	}
}

// Idle and header limits are set, and the server listens where it is told.
func TestHTTPServerLimits(t *testing.T) {
	t.Parallel()
	s := NewHTTPServer(New(Options{Node: newFakeNode(), RequestTimeout: time.Minute}))
	if s.ReadHeaderTimeout != 5*time.Second || s.IdleTimeout != time.Minute || s.WriteTimeout <= 2*time.Minute || s.ReadTimeout != 0 {
		t.Errorf("limits %+v", s)
	}
	if s = NewHTTPServer(http.NotFoundHandler()); s.WriteTimeout <= MaxWait+DefaultRequestTimeout {
		t.Errorf("WriteTimeout %v cuts a parked wait", s.WriteTimeout)
	}
}

// Reads are linearizable unless the caller says local; minIndex goes with
// either. What redaction looks up is local, and fresh where it is unknown.
func TestFreshness(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.reserve("fresh-key-0001", attemptA)
	last := func() fsm.ReadOptions {
		e.node.mu.Lock()
		defer e.node.mu.Unlock()
		o := e.node.reads[len(e.node.reads)-1]
		e.node.reads = nil
		return o
	}
	for _, path := range []string{
		"/v1/namespaces/default/records/fresh-key-0001", "/v1/namespaces/default/records",
		"/v1/namespaces", "/v1/namespaces/default", "/v1/audit",
	} {
		for query, want := range map[string]fsm.ReadOptions{
			"":                              {Strong: true},
			"?consistency=strong":           {Strong: true},
			"?consistency=local":            {},
			"?minIndex=7":                   {Strong: true, MinIndex: 7},
			"?consistency=local&minIndex=7": {MinIndex: 7},
		} {
			e.do("GET", path+query, "").ok(200)
			if o := last(); o != want {
				t.Errorf("%s%s read as %+v", path, query, o)
			}
		}
	}
	e.do("GET", "/v1/stats", "").ok(200)
	if o := last(); o.Strong {
		t.Error("stats are not this node's own")
	}
	e.post("commit", `{"key":"fresh-key-0001","token":"5","response":1}`).ok(409)
	if o := last(); o.Strong {
		t.Error("the namespace of every commit is read through the log")
	}
	e.do("POST", "/v1/namespaces/nobody/commit", `{"key":"fresh-key-0001","token":"5","response":1}`).ok(404)
	if o := last(); !o.Strong {
		t.Error("a namespace that is not known here is not looked for")
	}
}
