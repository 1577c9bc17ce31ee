package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/idem"
)

// attemptId and token are told to the holder in the answers to its own calls
// and to GET of one record; never in problems, replays and lists.
func TestVisibilityOfAttemptAndToken(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	g := e.post("reserve", `{"key":"secret-key-0001","attemptId":"`+attemptA+`"}`).ok(201)
	token := g.str("token")
	shows := func(name string, g *got, want bool) {
		t.Helper()
		if has := strings.Contains(g.raw, token); has != want {
			t.Errorf("%s: shows the token: %v, want %v: %s", name, has, want, g.raw)
		}
		if has := strings.Contains(g.raw, attemptA); has != want {
			t.Errorf("%s: shows the attemptId: %v, want %v: %s", name, has, want, g.raw)
		}
	}
	holder := `"key":"secret-key-0001","token":"` + token + `"`
	shows("reserve", g, true)
	shows("extend", e.post("extend", `{`+holder+`,"lease":"40s"}`).ok(200), true)
	shows("record", e.do("GET", "/v1/namespaces/default/records/secret-key-0001", "").ok(200), true)
	shows("list", e.do("GET", "/v1/namespaces/default/records", "").ok(200), false)
	shows("in flight", e.post("reserve", `{"key":"secret-key-0001","attemptId":"`+attemptB+`"}`).problem(409, idem.CodeInFlight), false)
	shows("conflict", e.post("reserve", `{"key":"secret-key-0001","attemptId":"`+attemptB+`","request":1}`).problem(422, idem.CodeKeyConflict), false)
	shows("stale token", e.post("commit", `{"key":"secret-key-0001","token":"1"}`).problem(409, idem.CodeStaleToken), false)
	shows("cancel of a held key", e.post("cancel", `{"key":"secret-key-0001","reason":"r"}`).problem(409, idem.CodeInFlight), false)
	shows("stale version", e.post("commit", `{`+holder+`,"expectedVersion":99}`).problem(412, idem.CodeStaleVersion), false)
	shows("commit", e.post("commit", `{`+holder+`,"response":{"id":"r-1"}}`).ok(200), true)
	shows("commit again", e.post("commit", `{`+holder+`,"response":{"id":"r-1"}}`).ok(200), true)
	shows("already settled", e.post("fail", `{`+holder+`,"errorCode":"x"}`).problem(409, idem.CodeAlreadySettled), false)
	shows("replay to another", e.post("reserve", `{"key":"secret-key-0001","attemptId":"`+attemptB+`"}`).ok(200), false)
	shows("replay to the same", e.post("reserve", `{"key":"secret-key-0001","attemptId":"`+attemptA+`"}`).ok(200), false)
	shows("replay in a batch", e.post("batch", `{"operations":[{"op":"reserve","key":"secret-key-0001"}]}`).ok(200), false)
	e.node.advance(25 * time.Hour)
	shows("expired", e.post("reserve", `{"key":"secret-key-0001"}`).problem(410, idem.CodeKeyExpired), false)
	if logs := e.logs.String(); strings.Contains(logs, token) || strings.Contains(logs, attemptA) || strings.Contains(logs, "secret-key-0001") {
		t.Error("the log shows a token, an attemptId or a key")
	}
	// A released key's attempt, judged by a person, stays the holder's.
	token = e.reserve("secret-key-0002", attemptA)
	e.node.advance(time.Hour)
	shows("resolve", e.post("resolve", `{"key":"secret-key-0002","token":"`+token+`","verdict":"not_applied","reason":"r","actor":"a"}`).ok(200), false)
	shows("release", e.post("release", `{"key":"secret-key-0002","token":"`+token+`"}`).ok(200), true)
	shows("spent", e.post("reserve", `{"key":"secret-key-0002","attemptId":"`+attemptA+`"}`).problem(409, idem.CodeAttemptSpent), false)
	shows("cancel", e.post("cancel", `{"key":"secret-key-0002","reason":"r"}`).ok(200), false)
	shows("cancelled", e.post("reserve", `{"key":"secret-key-0002"}`).problem(409, idem.CodeCancelled), false)
}

// What a problem shows of the record, to the member.
func TestProblemRecord(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	token := e.reserve("shown-key-0001", attemptA)
	members := func(g *got) string {
		m, _ := g.at("record").(map[string]any)
		return strings.Join(sortedKeys(m), " ")
	}
	if m := members(e.post("reserve", `{"key":"shown-key-0001"}`)); m != "attempt createdAt leaseExpiresAt status version" {
		t.Errorf("in flight shows %q", m)
	}
	holder := `"key":"shown-key-0001","token":"` + token + `"`
	e.post("fail", `{`+holder+`,"errorCode":"declined","response":{"why":"no funds"}}`).ok(200)
	g := e.post("commit", `{`+holder+`}`).problem(409, idem.CodeAlreadySettled)
	if m := members(g); m != "attempt createdAt errorCode expiresAt response settledAt status version" {
		t.Errorf("already settled shows %q", m)
	}
	if g.str("record", "errorCode") != "declined" || g.str("record", "response", "why") != "no funds" {
		t.Errorf("already settled without the outcome: %s", g.raw)
	}
	// A conflict leaks nothing of the other intent's outcome (B53).
	g = e.post("reserve", `{"key":"shown-key-0001","request":{"other":1}}`).problem(422, idem.CodeKeyConflict)
	if g.at("record") != nil || strings.Contains(g.raw, "declined") || strings.Contains(g.raw, "failed") {
		t.Errorf("a conflict shows the other's outcome: %s", g.raw)
	}
	g = e.post("reserve", `{"key":"shown-key-0001","attemptId":"`+attemptB+`"}`).ok(200)
	if g.str("record", "errorCode") != "declined" {
		t.Errorf("a replay without the error code: %s", g.raw)
	}
	// After the ttl the response is gone everywhere, swept or not.
	e.node.advance(24 * time.Hour)
	for name, g := range map[string]*got{
		"record":          e.do("GET", "/v1/namespaces/default/records/shown-key-0001", "").ok(200),
		"repeated fail":   e.post("fail", `{`+holder+`,"errorCode":"declined","response":{"why":"no funds"}}`).ok(200),
		"already settled": e.post("commit", `{`+holder+`}`).problem(409, idem.CodeAlreadySettled),
	} {
		if strings.Contains(g.raw, "no funds") || !strings.Contains(g.raw, `"expired"`) {
			t.Errorf("%s after the ttl: %s", name, g.raw)
		}
	}
}

// An old owner neither settles nor releases its successor's claim (B46).
func TestB46_OldOwner(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("again", `{"onLeaseExpiry":"rerun","lease":"1s"}`)
	ask := func(op, body string) *got { return e.do("POST", "/v1/namespaces/again/"+op, body) }
	old := ask("reserve", `{"key":"owned-key-0001","attemptId":"`+attemptA+`"}`).ok(201).str("token")
	e.node.advance(2 * time.Second)
	g := e.do("GET", "/v1/namespaces/again/records/owned-key-0001", "").ok(200)
	if g.str("status") != "uncertain" || g.at("takeover") != true {
		t.Errorf("a lapsed claim under rerun: %s", g.raw)
	}
	g = ask("reserve", `{"key":"owned-key-0001","attemptId":"`+attemptB+`"}`).ok(201)
	if g.str("previousAttempt", "ended") != "lapsed" || g.at("attempt") != 2.0 {
		t.Errorf("a take-over: %s", g.raw)
	}
	e.unchanged(func() {
		for op, more := range map[string]string{"commit": "", "fail": `,"errorCode":"x"`, "release": "", "extend": ""} {
			ask(op, `{"key":"owned-key-0001","token":"`+old+`"`+more+`}`).problem(409, idem.CodeStaleToken)
		}
	})
	ask("commit", `{"key":"owned-key-0001","token":"`+g.str("token")+`"}`).ok(200)
}

// Callers' text stays escaped, on its own line of the log.
func TestLogInjection(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	nasty := "x\\u000aOWNED level=ERROR\\u001b[31m\\u0022"
	for _, body := range []string{
		`{"key":"` + nasty + `"}`, `{"key":"nasty-key-0001","operation":"` + nasty + `"}`,
		`{"key":"nasty-key-0001","attemptId":"` + nasty + `"}`, `{"` + nasty + `":1}`,
	} {
		e.post("reserve", body)
	}
	e.post("reserve", `{"key":"nasty-key-0002"}`, "X-Correlation-ID", `level=ERROR msg="OWNED"`)
	e.do("GET", "/OWNED%0aOWNED", "")
	e.do("GET", "/v1/stats?OWNED%0aOWNED=1", "")
	for _, line := range strings.Split(strings.TrimSpace(e.logs.String()), "\n") {
		if !strings.HasPrefix(line, "time=") || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("a torn line: %q", line)
		}
		if strings.Contains(line, "OWNED") && !strings.Contains(line, `level=ERROR msg=\"OWNED\"`) {
			t.Errorf("a caller's text in the log: %q", line)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	want := func(name string, g *got, headers ...string) {
		t.Helper()
		for i := 0; i < len(headers); i += 2 {
			if v := g.header.Get(headers[i]); v != headers[i+1] {
				t.Errorf("%s: %s is %q, want %q", name, headers[i], v, headers[i+1])
			}
		}
		if g.header.Get("Content-Length") != fmt.Sprint(len(g.raw)) {
			t.Errorf("%s: Content-Length %q of %d bytes", name, g.header.Get("Content-Length"), len(g.raw))
		}
	}
	g := e.post("reserve", `{"key":"head-key-0001","attemptId":"`+attemptA+`"}`, "X-Correlation-ID", "corr-1", "Idempotency-Key", `"head-key-0001"`).ok(201)
	token := g.str("token")
	want("reserve", g, "Idempotency-Key", "head-key-0001", "Idempotent-Replayed", "false", "Idempotency-Expires", "",
		"X-Correlation-ID", "corr-1", "Onced-Time", "2026-11-30T10:00:00.000Z", "Onced-Index", "1", "Onced-Node", "n1", "Onced-Leader", "n1",
		"Cache-Control", "no-store", "Retry-After", "", "Content-Type", "application/json")
	if g.str("record", "correlationId") != "corr-1" {
		t.Errorf("the record lacks the correlation id: %s", g.raw)
	}
	e.node.advance(1500 * time.Millisecond)
	g = e.post("reserve", `{"key":"head-key-0001"}`).problem(409, idem.CodeInFlight)
	want("in flight", g, "Idempotency-Key", "head-key-0001", "Idempotent-Replayed", "", "Retry-After", "5", "Onced-Index", "2", "Onced-Time", "2026-11-30T10:00:01.500Z")
	if g.at("retryAfterMs") != 5000.0 { // most attempts end long before their lease
		t.Errorf("retryAfterMs %v", g.at("retryAfterMs"))
	}
	e.post("reserve", `{"key":"head-key-short","attemptId":"`+attemptA+`","lease":"1200ms"}`).ok(201)
	g = e.post("reserve", `{"key":"head-key-short"}`).problem(409, idem.CodeInFlight)
	if g.at("retryAfterMs") != 1200.0 || g.header.Get("Retry-After") != "2" {
		t.Errorf("a short lease: retryAfterMs %v, Retry-After %q", g.at("retryAfterMs"), g.header.Get("Retry-After"))
	}
	g = e.post("extend", `{"key":"head-key-0001","token":"`+token+`","lease":"1h30m"}`).ok(200)
	want("extend", g, "Idempotent-Replayed", "false")
	if g.str("leaseRemaining") != "1h" { // cut to maxLease
		t.Errorf("leaseRemaining %q", g.str("leaseRemaining"))
	}
	commit := `{"key":"head-key-0001","token":"` + token + `"}`
	want("commit", e.post("commit", commit).ok(200), "Idempotent-Replayed", "false", "Idempotency-Expires", "2026-12-01T10:00:01.500Z")
	want("commit again", e.post("commit", commit).ok(200), "Idempotent-Replayed", "true", "Idempotency-Expires", "2026-12-01T10:00:01.500Z")
	want("replay", e.post("reserve", `{"key":"head-key-0001"}`).ok(200), "Idempotent-Replayed", "true", "Idempotency-Expires", "2026-12-01T10:00:01.500Z")
	g = e.do("GET", "/v1/namespaces/default/records/head-key-0001", "").ok(200)
	want("record", g, "ETag", `"3"`, "Idempotency-Expires", "2026-12-01T10:00:01.500Z", "Idempotency-Key", "head-key-0001")
	head := e.do("HEAD", "/v1/namespaces/default/records/head-key-0001", "").ok(200)
	if head.raw != "" || head.header.Get("ETag") != `"3"` || head.header.Get("Content-Length") != fmt.Sprint(len(g.raw)) {
		t.Errorf("HEAD: %q %v", head.raw, head.header)
	}
	// A correlation id: the body's, else the header's, else one is made.
	g = e.post("reserve", `{"key":"head-key-0002","correlationId":"from-body"}`, "X-Correlation-ID", "from-header").ok(201)
	want("body's", g, "X-Correlation-ID", "from-body")
	for _, bad := range []string{"", strings.Repeat("c", 129), "gr\u00fcn"} {
		g = e.do("GET", "/healthz", "", "X-Correlation-ID", bad)
		if v := g.header.Get("X-Correlation-ID"); !strings.HasPrefix(v, "made-here-") {
			t.Errorf("correlation id %q gave %q", bad, v)
		}
	}
	e.node.set(func() { e.node.leader = "" })
	if g = e.do("GET", "/healthz", ""); len(g.header.Values("Onced-Leader")) != 0 {
		t.Errorf("a leader that is not known: %v", g.header)
	}
	// OPTIONS and HEAD.
	g = e.do("OPTIONS", "/v1/namespaces/default", "").ok(204)
	if g.header.Get("Allow") != "GET, HEAD, PUT, DELETE, OPTIONS" {
		t.Errorf("Allow %q", g.header.Get("Allow"))
	}
	g = e.do("HEAD", "/v1/namespaces/default/reserve", "").ok(405)
	if g.header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("Allow %q", g.header.Get("Allow"))
	}
	if res := e.raw("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != 204 {
		t.Errorf("OPTIONS *: %d", res.StatusCode)
	}
	e.do("HEAD", "/healthz", "").ok(200)
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for i, op := range []string{"commit", "fail", "release", "extend"} {
		key := fmt.Sprintf("match-key-%04d", i)
		token := e.reserve(key, attemptA)
		body := `{"key":"` + key + `","token":"` + token + `"`
		if op == "fail" {
			body += `,"errorCode":"x"`
		}
		if op == "extend" {
			body += `,"lease":"50m"`
		}
		e.unchanged(func() {
			g := e.post(op, body+`}`, "If-Match", `"7"`).problem(412, idem.CodeStaleVersion).says("7")
			g.says("1")
			e.post(op, body+`,"expectedVersion":7}`).problem(412, idem.CodeStaleVersion).says("7")
			e.post(op, body+`,"expectedVersion":1}`, "If-Match", `"7"`).problem(400, idem.CodeInvalidRequest).says("differ")
			e.post(op, body+`,"expectedVersion":7}`, "If-Match", `"1"`).problem(400, idem.CodeInvalidRequest).says("differ")
		})
		e.post(op, body+`,"expectedVersion":1}`, "If-Match", `"1"`).ok(200)
		if op != "extend" { // already so is answered before the version is compared
			e.post(op, body+`}`, "If-Match", `"1"`).ok(200)
		}
	}
	token := e.reserve("match-key-0009", attemptA)
	e.node.advance(time.Hour)
	body := `{"key":"match-key-0009","token":"` + token + `","verdict":"committed","reason":"r","actor":"a"}`
	e.post("resolve", body, "If-Match", `"7"`).problem(412, idem.CodeStaleVersion)
	e.post("resolve", body, "If-Match", `"1"`).ok(200)
}

// TestSafeNewKeyIsProved holds what safeNewKey says against a key that can
// still start, or may have: then a caller that takes a new one may run twice.
func TestSafeNewKeyIsProved(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	// Born 25 h ahead of the edge's clock: refused today, granted tomorrow.
	ms := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).Add(25 * time.Hour).UnixMilli()
	ahead := fmt.Sprintf("%08x-%04x-7000-8000-000000000001", ms>>16, ms&0xffff)
	g := e.post("reserve", `{"key":"`+ahead+`"}`).problem(400, idem.CodeKeyInvalid).says("born ahead")
	if g.at("safeNewKey") != false {
		t.Errorf("a key that starts tomorrow: %s", g.raw)
	}
	// Cancelled after an attempt gave its claim back: its holder may have run.
	token := e.reserve("given-back-0001", attemptA)
	e.post("release", `{"key":"given-back-0001","token":"`+token+`"}`).ok(200)
	e.post("cancel", `{"key":"given-back-0001","reason":"r"}`).ok(200)
	g = e.post("reserve", `{"key":"given-back-0001"}`).problem(409, idem.CodeCancelled)
	if g.at("safeNewKey") != false || strings.Contains(g.str("detail"), "before it could start") {
		t.Errorf("a key that was claimed: %s", g.raw)
	}
	// Cancelled before anything: proved.
	e.post("cancel", `{"key":"never-claimed-1","reason":"r"}`).ok(200)
	if g = e.post("reserve", `{"key":"never-claimed-1"}`).problem(409, idem.CodeCancelled); g.at("safeNewKey") != true {
		t.Errorf("a key that nobody claimed: %s", g.raw)
	}
}
