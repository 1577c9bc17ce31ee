package httpapi

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// Each line of api.md's error table and each refusal of semantics.md, asked for
// over HTTP: its status, its code, a complete problem, and nothing stored.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	token := e.reserve("held-key-0001", attemptA)
	settled := e.reserve("settled-key-0001", attemptA)
	e.post("commit", `{"key":"settled-key-0001","token":"`+settled+`","response":{"n":1}}`).ok(200)
	released := e.reserve("released-key-0001", attemptA)
	e.post("release", `{"key":"released-key-0001","token":"`+released+`"}`).ok(200)
	e.post("cancel", `{"key":"cancelled-key-0001","reason":"test"}`).ok(200)
	e.namespace("gate", `{"preset":"gateway"}`)
	gate := e.do("POST", "/v1/namespaces/gate/reserve", `{"key":"gate-key-0001","attemptId":"`+attemptA+`"}`).ok(201)
	e.do("POST", "/v1/namespaces/gate/commit", `{"key":"gate-key-0001","token":"`+gate.str("token")+`"}`).ok(200)
	e.namespace("full", `{"maxRecords":1}`)
	e.do("POST", "/v1/namespaces/full/reserve", `{"key":"full-key-0001"}`).ok(201)
	e.namespace("gone", `{}`)
	e.do("DELETE", "/v1/namespaces/gone", "").ok(204)

	const ns = "/v1/namespaces/default/"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code                     idem.Code
		says                     string
	}{
		{"no key", "POST", ns + "reserve", `{}`, 400, idem.CodeKeyMissing, "key"},
		{"bad key", "POST", ns + "reserve", `{"key":"short"}`, 400, idem.CodeKeyInvalid, "key"},
		{"conflict by request", "POST", ns + "reserve", `{"key":"settled-key-0001","request":1}`, 422, idem.CodeKeyConflict, "request"},
		{"conflict by operation", "POST", ns + "reserve", `{"key":"settled-key-0001","operation":"x"}`, 422, idem.CodeKeyConflict, "operation"},
		{"in flight", "POST", ns + "reserve", `{"key":"held-key-0001","attemptId":"` + attemptB + `"}`, 409, idem.CodeInFlight, ""},
		{"cancelled", "POST", ns + "reserve", `{"key":"cancelled-key-0001"}`, 409, idem.CodeCancelled, ""},
		{"duplicate", "POST", "/v1/namespaces/gate/reserve", `{"key":"gate-key-0001"}`, 409, idem.CodeDuplicate, ""},
		{"spent", "POST", ns + "reserve", `{"key":"released-key-0001","attemptId":"` + attemptA + `"}`, 409, idem.CodeAttemptSpent, "attemptId"},
		{"not found", "POST", ns + "commit", `{"key":"nothing-here-1","token":"1"}`, 404, idem.CodeNotFound, ""},
		{"record not found", "GET", ns + "records/nothing-here-1", "", 404, idem.CodeNotFound, ""},
		{"stale token", "POST", ns + "commit", `{"key":"held-key-0001","token":"1"}`, 409, idem.CodeStaleToken, ""},
		{"token missing", "POST", ns + "commit", `{"key":"held-key-0001"}`, 400, idem.CodeTokenMissing, "token"},
		{"already settled", "POST", ns + "commit", `{"key":"settled-key-0001","token":"` + settled + `","response":2}`, 409, idem.CodeAlreadySettled, ""},
		{"cancel settled", "POST", ns + "cancel", `{"key":"settled-key-0001","reason":"r"}`, 409, idem.CodeAlreadySettled, ""},
		{"stale version", "POST", ns + "commit", `{"key":"held-key-0001","token":"` + token + `","expectedVersion":9}`, 412, idem.CodeStaleVersion, "9"},
		{"malformed", "POST", ns + "reserve", `{"key":`, 400, idem.CodeInvalidRequest, "body"},
		{"unknown member", "POST", ns + "reserve", `{"kee":1}`, 400, idem.CodeInvalidRequest, "kee"},
		{"namespace", "POST", "/v1/namespaces/nobody/reserve", `{"key":"some-key-0001"}`, 404, idem.CodeNamespaceNotFound, "namespace"},
		{"namespace of a commit", "POST", "/v1/namespaces/nobody/commit", `{"key":"some-key-0001","token":"1","response":1}`, 404, idem.CodeNamespaceNotFound, "namespace"},
		{"namespace of a record", "GET", "/v1/namespaces/nobody/records/some-key-0001", "", 404, idem.CodeNamespaceNotFound, ""},
		{"namespace of a list", "GET", "/v1/namespaces/nobody/records", "", 404, idem.CodeNamespaceNotFound, ""},
		{"namespace itself", "GET", "/v1/namespaces/nobody", "", 404, idem.CodeNamespaceNotFound, ""},
		{"retired", "POST", "/v1/namespaces/gone/reserve", `{"key":"some-key-0001"}`, 410, idem.CodeNamespaceRetired, ""},
		{"retired for ever", "PUT", "/v1/namespaces/gone", `{}`, 410, idem.CodeNamespaceRetired, ""},
		{"retired, shown", "GET", "/v1/namespaces/gone", "", 410, idem.CodeNamespaceRetired, ""},
		{"not empty", "DELETE", "/v1/namespaces/full", "", 409, idem.CodeNamespaceNotEmpty, "force"},
		{"quota", "POST", "/v1/namespaces/full/reserve", `{"key":"full-key-0002"}`, 429, idem.CodeQuotaExceeded, ""},
		{"route", "GET", "/v2/nothing", "", 404, idem.CodeRouteNotFound, ""},
		{"trailing slash", "POST", ns + "reserve/", `{"key":"some-key-0001"}`, 404, idem.CodeRouteNotFound, "slash"},
		{"method", "PUT", ns + "reserve", `{}`, 405, idem.CodeMethodNotAllowed, "Allow"},
		{"method of a read", "POST", "/v1/stats", `{}`, 405, idem.CodeMethodNotAllowed, ""},
	} {
		e.unchanged(func() {
			g := e.do(c.method, c.path, c.body)
			g.problem(c.status, c.code).says(c.says)
			if c.code == idem.CodeMethodNotAllowed && !strings.Contains(g.header.Get("Allow"), "OPTIONS") {
				t.Errorf("%s: Allow is %q", c.name, g.header.Get("Allow"))
			}
		})
	}
	e.node.advance(time.Minute)
	e.post("reserve", `{"key":"held-key-0001"}`).problem(409, idem.CodeUncertain)
	e.node.advance(25 * time.Hour)
	g := e.post("reserve", `{"key":"settled-key-0001"}`).problem(410, idem.CodeKeyExpired)
	if g.str("verdict") != "committed" || g.str("record", "status") != "expired" {
		t.Errorf("an expired key without its verdict: %s", g.raw)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	token := e.reserve("held-key-0001", attemptA)
	for _, applied := range []idem.Applied{idem.AppliedNo, idem.AppliedUnknown} {
		e.node.set(func() {
			e.node.err = &idem.Error{Code: idem.CodeUnavailable, Applied: applied, RetryAfter: 1199*time.Millisecond + time.Microsecond}
		})
		g := e.post("reserve", `{"key":"some-key-0001","operation":"op"}`).problem(503, idem.CodeUnavailable)
		if g.str("applied") != string(applied) || g.header.Get("Retry-After") != "2" || g.at("retryAfterMs") != 1200.0 {
			t.Errorf("%s; Retry-After %s", g.raw, g.header.Get("Retry-After"))
		}
		// The attemptId that was made here comes back even now.
		if made := g.str("attemptId"); !strings.HasPrefix(made, "made-here-") {
			t.Errorf("503 without the attemptId that was made: %s", g.raw)
		}
		g = e.post("reserve", `{"key":"some-key-0001","attemptId":"`+attemptB+`"}`).problem(503, idem.CodeUnavailable)
		if g.at("attemptId") != nil {
			t.Errorf("the caller's own attemptId in a problem: %s", g.raw)
		}
		g = e.post("commit", `{"key":"held-key-0001","token":"`+token+`"}`).problem(503, idem.CodeUnavailable)
		if strings.Contains(g.raw, token) {
			t.Errorf("a token in a problem: %s", g.raw)
		}
		for _, path := range []string{"records/held-key-0001", "records"} {
			e.do("GET", "/v1/namespaces/default/"+path, "").problem(503, idem.CodeUnavailable)
		}
		for _, path := range []string{"/v1/namespaces", "/v1/namespaces/default", "/v1/audit", "/v1/stats"} {
			e.do("GET", path, "").problem(503, idem.CodeUnavailable)
		}
		e.do("PUT", "/v1/namespaces/other", `{}`).problem(503, idem.CodeUnavailable)
		e.do("DELETE", "/v1/namespaces/other", "").problem(503, idem.CodeUnavailable)
		e.do("POST", "/v1/sweep", "").problem(503, idem.CodeUnavailable)
	}
	e.node.set(func() { e.node.err = &idem.Error{Code: idem.CodeOverloaded} })
	g := e.post("reserve", `{"key":"some-key-0001"}`).problem(503, idem.CodeOverloaded)
	if g.str("applied") != "no" {
		t.Errorf("overloaded says applied %q", g.str("applied"))
	}
	// Health and the document need no quorum.
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/", "/v1/cluster"} {
		e.do("GET", path, "").ok(200)
	}
}

// The machine's own refusal of a late command did nothing; one whose earlier
// try is in doubt says so.
func TestLateAtApply(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for unknown, applied := range map[bool]string{false: "no", true: "unknown"} {
		e.node.set(func() {
			e.node.mutate = func(d *fsm.Decision) {
				d.Results[0] = fsm.Result{Code: idem.CodeUnavailable, Unknown: unknown}
			}
		})
		g := e.post("reserve", `{"key":"some-key-0001"}`).problem(503, idem.CodeUnavailable)
		if g.str("applied") != applied || g.str("attemptId") == "" {
			t.Errorf("late at apply: %s", g.raw)
		}
	}
}

// A fault of ours tells nothing of the inside and is found by its correlation
// id in the log.
func TestInternal(t *testing.T) {
	t.Parallel()
	for name, setUp := range map[string]func(n *fakeNode){
		"panic":       func(n *fakeNode) { n.panics = true },
		"other error": func(n *fakeNode) { n.err = errors.New("a secret of the inside") },
		"no results":  func(n *fakeNode) { n.mutate = func(d *fsm.Decision) { d.Results = nil } },
		"no outcome":  func(n *fakeNode) { n.mutate = func(d *fsm.Decision) { d.Results[0] = fsm.Result{} } },
		"odd code": func(n *fakeNode) {
			n.mutate = func(d *fsm.Decision) { d.Results[0] = fsm.Result{Code: "odd", Detail: "a secret of the inside"} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t)
			e.node.set(func() { setUp(e.node) })
			g := e.post("reserve", `{"key":"some-key-0001"}`, "X-Correlation-ID", "corr-77").problem(500, idem.CodeInternal)
			if strings.Contains(g.raw, "secret") || strings.Contains(g.raw, ".go") {
				t.Errorf("the inside shows: %s", g.raw)
			}
			if name == "panic" && !strings.Contains(e.logs.String(), "a secret of the inside") {
				t.Error("the log lacks the panic")
			}
			if name != "odd code" && !strings.Contains(e.logs.String(), "corr-77") {
				t.Error("the log lacks the correlation id")
			}
			e.node.set(func() { e.node.panics, e.node.err, e.node.mutate = false, nil, nil })
			e.post("reserve", `{"key":"some-key-0002"}`).ok(201)
		})
	}
}

// A full namespace refuses what would be a new record, cancel too, and nothing
// else; resolve is refused while its key is held.
func TestQuotaAndResolveAreRefused(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("full", `{"maxRecords":1}`)
	in := func(op, body string) *got { return e.do("POST", "/v1/namespaces/full/"+op, body) }
	token := in("reserve", `{"key":"only-key-0001","attemptId":"`+attemptA+`"}`).ok(201).str("token")
	e.unchanged(func() {
		in("reserve", `{"key":"more-key-0001"}`).problem(429, idem.CodeQuotaExceeded)
		in("cancel", `{"key":"more-key-0001","reason":"withdrawn"}`).problem(429, idem.CodeQuotaExceeded)
		verdict := `{"key":"only-key-0001","token":"` + token + `","verdict":"committed","reason":"seen","actor":"ada"}`
		in("resolve", verdict).problem(409, idem.CodeInFlight)
	})
	in("reserve", `{"key":"only-key-0001","attemptId":"`+attemptA+`"}`).ok(201)
	in("release", `{"key":"only-key-0001","token":"`+token+`"}`).ok(200)
	in("cancel", `{"key":"only-key-0001","reason":"withdrawn"}`).ok(200)
}
