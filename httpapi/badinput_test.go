package httpapi

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/idem"
)

// A missing key is missing however it is spelled, and never one shared record.
func TestB55_MissingKey(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.unchanged(func() {
		for _, body := range []string{
			`{}`, `{"key":""}`, `{"key":null}`, `{"key":"  "}`, `{"key":"\t\n"}`, `{"idempotencyKey":null}`, `{"idempotencyKey":""}`,
			`{"key":null,"idempotencyKey":"good-key-0001"}`,
		} {
			g := e.post("reserve", body)
			g.problem(400, idem.CodeKeyMissing)
		}
		// null is no licence to take the header or the fingerprint instead.
		e.post("reserve", `{"key":null}`, "Idempotency-Key", "good-key-0001").problem(400, idem.CodeKeyMissing)
		e.post("reserve", `{"key":"","fingerprint":`+trade+`}`).problem(400, idem.CodeKeyMissing)
		e.post("reserve", `{"fingerprint":`+trade+`}`, "Idempotency-Key", "").problem(400, idem.CodeKeyMissing)
		for _, op := range []string{"commit", "fail", "release", "extend", "cancel", "resolve"} {
			e.post(op, `{}`).problem(400, idem.CodeKeyMissing)
		}
	})
}

const trade = `{"kind":"trade","exchange":"kraken","symbol":"BTC-EUR","action":"buy","quantity":1.50,"mode":"live"}`

func TestKeyGrammar(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, n := range []int{8, 256} {
		e.post("reserve", `{"key":"`+strings.Repeat("k", n)+`"}`).ok(201)
	}
	e.unchanged(func() {
		for _, n := range []int{1, 7, 257, 5000} {
			e.post("reserve", `{"key":"`+strings.Repeat("k", n)+`"}`).problem(400, idem.CodeKeyInvalid).says("key")
		}
		for b := range 256 {
			c := byte(b)
			if strings.IndexByte(keyCharacters, c) >= 0 {
				continue
			}
			if c < 0x80 {
				body := fmt.Sprintf(`{"key":"forbid-%s-0001"}`, fmt.Sprintf(`\u%04x`, c))
				e.post("reserve", body).problem(400, idem.CodeKeyInvalid).says("key")
			}
			// In a path the same byte is refused too, one way or the other.
			path := "/v1/namespaces/default/records/" + fmt.Sprintf("forbid-%%%02X-0001", c)
			if g := e.do("GET", path, ""); g.status != 400 {
				t.Errorf("byte %#02x in a path: %d %s", c, g.status, g.raw)
			}
		}
		// Never a silent fallback to a fingerprint.
		e.post("reserve", `{"key":"`+strings.Repeat("k", 257)+`","fingerprint":`+trade+`}`).problem(400, idem.CodeKeyInvalid)
	})
}

func TestKeyHeader(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	token := e.post("reserve", `{"attemptId":"`+attemptA+`"}`, "Idempotency-Key", "header-key-0001").ok(201).str("token")
	for _, h := range []string{`"header-key-0001"`, "header-key-0001"} {
		g := e.post("reserve", `{"attemptId":"`+attemptA+`"}`, "Idempotency-Key", h).ok(201)
		if g.str("token") != token || g.header.Get("Idempotency-Key") != "header-key-0001" {
			t.Errorf("%s is another key: %s", h, g.raw)
		}
	}
	e.post("reserve", `{"key":"header-key-0001","attemptId":"`+attemptA+`"}`, "Idempotency-Key", `"header-key-0001"`).ok(201)
	e.unchanged(func() {
		for _, lines := range [][]string{
			{"Idempotency-Key", "first-key-0001", "Idempotency-Key", "second-key-0001"},
			{"Idempotency-Key", "first-key-0001", "Idempotency-Key", "first-key-0001"},
			{"Idempotency-Key", "first-key-0001, second-key-0001"},
			{"Idempotency-Key", `"first-key-0001", "second-key-0001"`},
			{"Idempotency-Key", `"open-key-0001`},
			{"Idempotency-Key", "short"},
		} {
			e.post("reserve", `{}`, lines...).problem(400, idem.CodeKeyInvalid).says("Idempotency-Key")
			// The body's key does not heal a bad header.
			e.post("reserve", `{"key":"first-key-0001"}`, lines...).problem(400, idem.CodeKeyInvalid)
		}
		e.post("reserve", `{"key":"body-key-0001"}`, "Idempotency-Key", "other-key-0001").problem(400, idem.CodeKeyInvalid).says("differ")
		e.post("reserve", `{"key":"body-key-0001","idempotencyKey":"other-key-0001"}`).problem(400, idem.CodeKeyInvalid).says("differ")
		e.post("reserve", `{"key":"body-key-0001"}`, "Idempotency-Key", "").problem(400, idem.CodeKeyMissing)
	})
	// Settling calls take the header as well.
	e.post("commit", `{"token":"`+token+`"}`, "Idempotency-Key", "header-key-0001").ok(200)
	// A raw 0xFF is let through by net/http, not by us.
	e.unchanged(func() {
		res := e.raw("POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: raw-key-\xff0001\r\nContent-Length: 2\r\n\r\n{}")
		if res.StatusCode != 400 {
			t.Errorf("a raw 0xFF in the key: %d", res.StatusCode)
		}
	})
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	g := e.post("reserve", `{"fingerprint":`+trade+`,"attemptId":"`+attemptA+`"}`).ok(201)
	key := g.str("record", "key")
	if !strings.HasPrefix(key, "trade:kraken:BTC-EUR:BUY:1.5:live:") || g.header.Get("Idempotency-Key") != key {
		t.Errorf("key %q, header %q", key, g.header.Get("Idempotency-Key"))
	}
	// Across the minute the same record is meant, and the answer names it.
	e.node.advance(61 * time.Second)
	g = e.post("reserve", `{"fingerprint":`+trade+`}`).problem(409, idem.CodeUncertain)
	if g.str("key") != key {
		t.Errorf("the refusal names key %q, want %q", g.str("key"), key)
	}
	// A key wins over a fingerprint.
	g = e.post("reserve", `{"key":"own-key-0001","fingerprint":`+trade+`}`).ok(201)
	if g.str("record", "key") != "own-key-0001" {
		t.Errorf("the fingerprint won: %s", g.raw)
	}
	e.unchanged(func() {
		for member, bad := range map[string]string{
			"kind":     strings.Replace(trade, "trade", "transfer", 1),
			"mode":     strings.Replace(trade, "live", "prod", 1),
			"exchange": strings.Replace(trade, `"kraken"`, `""`, 1),
			"quantity": strings.Replace(trade, "1.50", "1e400", 1),
			"symbol":   strings.Replace(trade, `"BTC-EUR"`, `7`, 1),
			"surprise": strings.Replace(trade, `{`, `{"surprise":1,`, 1),
		} {
			e.post("reserve", `{"fingerprint":`+bad+`}`).problem(400, idem.CodeInvalidRequest).says(member)
		}
	})
}

// One row per way to spell a body wrongly; each names the member.
func TestStrictBodies(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	token := e.reserve("held-key-0001", attemptA)
	held := `"key":"held-key-0001","token":"` + token + `"`
	e.unchanged(func() {
		for _, c := range []struct{ op, body, says string }{
			{"reserve", `{"key":"good-key-0001","key":"good-key-0001"}`, "key"},
			{"reserve", `{"key":"good-key-0001","request":{"a":1,"a":2}}`, "request"},
			{"reserve", `{"key":"good-key-0001","request":1e400}`, "request"},
			{"reserve", `{"key":"good-key-0001","request":"\ud800"}`, "request"},
			{"reserve", "{\"key\":\"good-key-0001\",\"request\":\"\xff\"}", "request"},
			{"reserve", `{"key":"good-key-0001","request":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "deep"},
			{"reserve", `{"key":"good-key-0001","Operation":"x"}`, "Operation"},
			{"reserve", `{"key":"good-key-0001","operation":7}`, "operation"},
			{"reserve", `{"key":"good-key-0001","operation":"` + strings.Repeat("o", 129) + `"}`, "operation"},
			{"reserve", `{"key":"good-key-0001","operation":"a\u0007"}`, "operation"},
			{"reserve", `{"key":7}`, "key"},
			{"reserve", `{"key":"good-key-0001"} {}`, "body"},
			{"reserve", `[]`, "body"},
			{"reserve", `null`, "body"},
			{"reserve", `{"key":"good-key-0001","request":1,"requestHash":"req-1"}`, "requestHash"},
			{"reserve", `{"key":"good-key-0001","request":null,"requestHash":"req-1"}`, "requestHash"},
			{"reserve", `{"key":"good-key-0001","requestHash":""}`, "requestHash"},
			{"reserve", `{"key":"good-key-0001","attemptId":"short"}`, "attemptId"},
			{"reserve", `{"key":"good-key-0001","attemptId":""}`, "attemptId"},
			{"reserve", `{"key":"good-key-0001","ttl":"0s"}`, "ttl"},
			{"reserve", `{"key":"good-key-0001","ttl":"8761h"}`, "ttl"},
			{"reserve", `{"key":"good-key-0001","ttl":""}`, "ttl"},
			{"reserve", `{"key":"good-key-0001","ttl":30}`, "ttl"},
			{"reserve", `{"key":"good-key-0001","lease":"-1s"}`, "lease"},
			{"reserve", `{"key":"good-key-0001","lease":"999us"}`, "lease"},
			{"reserve", `{"key":"good-key-0001","wait":"60001ms"}`, "wait"},
			{"reserve", `{"key":"good-key-0001","wait":"-1s"}`, "wait"},
			{"reserve", `{"key":"good-key-0001","correlationId":"a\nb"}`, "correlationId"},
			{"reserve", `{"key":"good-key-0001","token":"1"}`, "token"},
			{"commit", `{"key":"held-key-0001","token":12}`, "token"},
			{"commit", `{"key":"held-key-0001","token":"1.5"}`, "token"},
			{"commit", `{"key":"held-key-0001","token":"01"}`, "token"},
			{"commit", `{"key":"held-key-0001","token":"99999999999999999999"}`, "token"},
			{"commit", `{` + held + `,"expectedVersion":0}`, "expectedVersion"},
			{"commit", `{` + held + `,"expectedVersion":-1}`, "expectedVersion"},
			{"commit", `{` + held + `,"expectedVersion":1.5}`, "expectedVersion"},
			{"commit", `{` + held + `,"errorCode":"x"}`, "errorCode"},
			{"commit", `{` + held + `,"response":{"a":1,"a":2}}`, "response"},
			{"commit", `{` + held + `,"response":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "deep"},
			{"fail", `{` + held + `}`, "errorCode"},
			{"fail", `{` + held + `,"errorCode":""}`, "errorCode"},
			{"fail", `{` + held + `,"errorCode":"x","lease":"1s"}`, "lease"},
			{"release", `{` + held + `,"reason":"a\u0000b"}`, "reason"},
			{"release", `{` + held + `,"response":1}`, "response"},
			{"extend", `{` + held + `,"lease":"soon"}`, "lease"},
			{"cancel", `{"key":"good-key-0001"}`, "reason"},
			{"cancel", `{"key":"good-key-0001","reason":" "}`, "reason"},
			{"cancel", `{"key":"good-key-0001","reason":"x","token":"1"}`, "token"},
			{"resolve", `{` + held + `,"reason":"r","actor":"a"}`, "verdict"},
			{"resolve", `{` + held + `,"reason":"r","actor":"a","verdict":"done"}`, "verdict"},
			{"resolve", `{` + held + `,"verdict":"committed","actor":"a"}`, "reason"},
			{"resolve", `{` + held + `,"verdict":"committed","reason":"r"}`, "actor"},
			{"resolve", `{` + held + `,"verdict":"not_applied","reason":"r","actor":"a","response":1}`, "not_applied"},
			{"resolve", `{` + held + `,"verdict":"committed","reason":"r","actor":"a","errorCode":"x"}`, "errorCode"},
		} {
			e.post(c.op, c.body).problem(400, idem.CodeInvalidRequest).says(c.says)
		}
		e.post("reserve", "").problem(400, idem.CodeInvalidRequest).says("body")
		e.post("commit", `{"key":"held-key-0001","token":""}`).problem(400, idem.CodeTokenMissing)
		e.post("commit", `{"key":"held-key-0001","token":null}`).problem(400, idem.CodeTokenMissing)
	})
	// The longest and shortest that are taken.
	e.post("reserve", `{"key":"good-key-0001","ttl":"1ms","lease":"1ms","wait":"0s","operation":""}`).ok(201)
	e.post("reserve", `{"key":"good-key-0002","ttl":"8760h","lease":"8760h","wait":"60s"}`).ok(201)
	e.post("reserve", `{"key":"good-key-0003","ttl":null,"lease":null,"wait":null,"attemptId":null,"operation":null}`).ok(201)
}

// Which requests are one and which are two (B53, B54).
func TestB54_RequestDigests(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	same := [][]string{
		{`{"a":1,"b":[1,2]}`, `{"b":[1,2],"a":1}`, `{ "a" : 1.0, "b":[1e0,2] }`},
		{`null`, ``},
		{`-0`, `0`},
		{`"\u0041"`, `"A"`},
	}
	different := [][2]string{
		{`[1,2]`, `[2,1]`},
		{`1`, `"1"`},
		{`9007199254740993`, `9007199254740992`},
		{`null`, `{}`},
		{`"\u00e9"`, `"e\u0301"`},
		{`{"amount":86351,"to":"acct_7094"}`, `{"amount":112556,"to":"acct_2726"}`},
	}
	ask := func(key, request string) *got {
		member := ""
		if request != "" {
			member = `,"request":` + request
		}
		return e.post("reserve", `{"key":"`+key+`","attemptId":"`+attemptA+`"`+member+`}`)
	}
	for i, group := range same {
		for _, r := range group {
			ask(fmt.Sprintf("same-key-%04d", i), r).ok(201)
		}
	}
	for i, pair := range different {
		key := fmt.Sprintf("diff-key-%04d", i)
		ask(key, pair[0]).ok(201)
		ask(key, pair[1]).problem(422, idem.CodeKeyConflict).says("request")
	}
}

// Encoded, dotted, doubled and trailing paths: the exact key or a refusal,
// never a redirect and never another namespace (B62, B63). Raw sockets, since
// clients clean paths.
func TestB62_B63_Paths(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("b", `{}`)
	e.reserve("dotted.key-0001", attemptA)
	e.do("POST", "/v1/namespaces/b/reserve", `{"key":"secret-key-0001"}`).ok(201)
	ask := func(method, path string) (int, string) {
		body := ""
		if method == "POST" {
			body = `{"key":"path-key-0001"}`
		}
		res := e.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			method, path, len(body), body))
		raw, _ := io.ReadAll(res.Body)
		if res.Header.Get("Location") != "" {
			t.Errorf("%s %s: Location %q", method, path, res.Header.Get("Location"))
		}
		if ct := res.Header.Get("Content-Type"); res.StatusCode >= 400 && ct != "application/problem+json" {
			t.Errorf("%s %s: %d as %q", method, path, res.StatusCode, ct)
		}
		return res.StatusCode, string(raw)
	}
	for _, path := range []string{
		"/v1/namespaces/default/records/dotted.key-0001", "/v1/namespaces/default/records/dotted%2ekey-0001",
		"/v1/namespaces/default/records/dotted%2Ekey%2D0001", "/v1/namespaces/%64efault/records/dotted.key-0001",
	} {
		if status, raw := ask("GET", path); status != 200 || !strings.Contains(raw, `"dotted.key-0001"`) {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
	e.unchanged(func() {
		for path, want := range map[string]int{
			"/v1/namespaces/default/records/..%2f..%2fb%2frecords%2fsecret-key-0001": 400,
			"/v1/namespaces/default/records/../../b/records/secret-key-0001":         404,
			"/v1/namespaces/default/../b/records/secret-key-0001":                    404,
			"/v1/namespaces/default/%2e%2e/b/records/secret-key-0001":                404,
			"/v1/namespaces/..%2fb/records/secret-key-0001":                          400,
			"/v1/namespaces/default/records/dotted%252ekey-0001":                     400,
			"/v1/namespaces/default/records//dotted.key-0001":                        404,
			"//v1/namespaces/default/records/dotted.key-0001":                        404,
			"/v1//namespaces/default/records/dotted.key-0001":                        404,
			"/./v1/namespaces/default/records/dotted.key-0001":                       404,
			"/v1/namespaces/default/records/dotted.key-0001/":                        404,
			"/v1/namespaces/default/records/":                                        404,
			"/v1/namespaces/default/records/dotted.key-0001%00":                      400,
			"/v1/namespaces/default/records/dotted.key-0001%0a":                      400,
			"/v1/namespaces/default/records/dotted.key-0001%c3%a9":                   400,
			"/v1/namespaces/default/records/dotted.key-0001;a=b":                     400,
			"/v1/namespaces/DEFAULT/records/dotted.key-0001":                         400,
			"/v1/namespaces/default%2frecords/dotted.key-0001":                       404,
			"/v1/namespaces/default/records%2fdotted.key-0001":                       404,
			"/V1/namespaces/default/records/dotted.key-0001":                         404,
			"/v1/%6eamespaces/default/records/dotted.key-0001":                       404,
			"/v1/namespaces/" + strings.Repeat("n", 64) + "/records/dotted.key-0001": 400,
			"/healthz/": 404, "/healthz//": 404, "/readyz/": 404, "/v1": 404, "/v1/": 404, "/v1/namespaces/": 404, "/..": 404, "/%2e%2e": 404, "//": 404,
		} {
			if status, raw := ask("GET", path); status != want {
				t.Errorf("GET %s: %d, want %d: %s", path, status, want, raw)
			}
		}
		for _, path := range []string{
			"/v1/namespaces/default/reserve/", "/v1/namespaces/default/./reserve", "/v1/namespaces/default//reserve",
			"/v1/namespaces/default/reserve/.", "/v1/namespaces/default/x/../reserve", "//v1/namespaces/default/reserve",
		} {
			if status, raw := ask("POST", path); status != 404 {
				t.Errorf("POST %s: %d %s", path, status, raw)
			}
		}
		if status, _ := ask("CONNECT", "example.org:443"); status != 404 && status != 405 && status != 400 {
			t.Errorf("CONNECT: %d", status)
		}
	})
	// The absolute form is the same path.
	if status, raw := ask("GET", "http://elsewhere/v1/namespaces/default/records/dotted.key-0001"); status != 200 {
		t.Errorf("absolute form: %d %s", status, raw)
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const records = "/v1/namespaces/default/records"
	e.reserve("query-key-0001", attemptA)
	for _, c := range []struct{ method, path, says string }{
		{"GET", records + "?surprise=1", "surprise"},
		{"GET", records + "?Limit=1", "Limit"},
		{"GET", records + "?limit=1&limit=2", "limit"},
		{"GET", records + "?limit=0", "limit"},
		{"GET", records + "?limit=1001", "limit"},
		{"GET", records + "?limit=", "limit"},
		{"GET", records + "?limit=%2B1", "limit"},
		{"GET", records + "?limit=ten", "limit"},
		{"GET", records + "?status=done", "status"},
		{"GET", records + "?status=", "status"},
		{"GET", records + "?prefix=a/b", "prefix"},
		{"GET", records + "?cursor=", "cursor"},
		{"GET", records + "?cursor=a%20b", "cursor"},
		{"GET", records + "?consistency=eventual", "consistency"},
		{"GET", records + "/query-key-0001?minIndex=-1", "minIndex"},
		{"GET", records + "/query-key-0001?minIndex=", "minIndex"},
		{"GET", records + "/query-key-0001?a;b", "query"},
		{"GET", records + "/query-key-0001?%zz", "query"},
		{"GET", "/v1/audit?cursor=x", "cursor"},
		{"GET", "/v1/audit?limit=1001", "limit"},
		{"GET", "/v1/stats?x=1", "x"},
		{"GET", "/readyz?verbose=maybe", "verbose"},
		{"POST", "/v1/namespaces/default/reserve?key=query-key-0009", "key"},
		{"DELETE", "/v1/namespaces/default?force=yes", "force"},
		{"DELETE", "/v1/namespaces/default?Force=true", "Force"},
	} {
		body := ""
		if c.method == "POST" {
			body = `{"key":"query-key-0009"}`
		}
		e.unchanged(func() { e.do(c.method, c.path, body).problem(400, idem.CodeInvalidRequest).says(c.says) })
	}
	e.do("GET", records+"?"+url.Values{"prefix": {"query-"}, "limit": {"1000"}, "status": {"pending"}}.Encode(), "").ok(200)
	e.do("GET", "/healthz?probe=kubelet", "").ok(200)
	for _, h := range [][]string{
		{"Onced-Timeout", "soon"}, {"Onced-Timeout", "0s"}, {"Onced-Timeout", ""}, {"Onced-Timeout", "1s", "Onced-Timeout", "1s"},
	} {
		e.unchanged(func() {
			e.post("reserve", `{"key":"query-key-0009"}`, h...).problem(400, idem.CodeInvalidRequest).says("Onced-Timeout")
		})
	}
	for _, tag := range []string{`1`, `W/"1"`, `*`, `"1", "2"`, `"x"`, `"0"`, `"01"`, `""`, `"+1"`} {
		e.post("commit", `{"key":"query-key-0001","token":"1"}`, "If-Match", tag).problem(400, idem.CodeInvalidRequest).says("If-Match")
	}
	e.post("reserve", `{"key":"query-key-0009"}`, "If-Match", `"1"`).problem(400, idem.CodeInvalidRequest).says("If-Match")
}

func TestMediaTypesAndSizes(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const body = `{"key":"media-key-0001","attemptId":"` + attemptA + `"}`
	for _, ct := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8", `application/json;charset="UTF-8"`} {
		e.post("reserve", body, "Content-Type", "-", "Content-Type", ct).ok(201)
	}
	e.post("reserve", body, "Accept", "text/html").ok(201)
	e.unchanged(func() {
		for _, headers := range [][]string{
			{"Content-Type", "-"},
			{"Content-Type", "-", "Content-Type", "text/plain"},
			{"Content-Type", "-", "Content-Type", "application/jsonp"},
			{"Content-Type", "-", "Content-Type", "application/problem+json"},
			{"Content-Type", "-", "Content-Type", "application/json; charset=latin1"},
			{"Content-Type", "-", "Content-Type", "application/json; boundary=x"},
			{"Content-Type", "-", "Content-Type", "application/json; version=utf-8"},
			{"Content-Type", "-", "Content-Type", "application/x-www-form-urlencoded"},
			{"Content-Type", "application/json"}, // a second line
			{"Content-Encoding", "gzip"},
		} {
			e.post("reserve", body, headers...).problem(415, idem.CodeUnsupportedMediaType).says("Content-Type")
		}
		fits := func(n int) string { return `{"key":"media-key-0002"` + strings.Repeat(" ", n-24) + `}` }
		e.post("reserve", fits(MaxBodyBytes+1)).problem(413, idem.CodeRequestTooLarge).says("1 MiB")
		// Refused by what it promises, before it is read.
		if res := e.raw("POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n"); res.StatusCode != 413 {
			t.Errorf("a promise over the limit: %d", res.StatusCode)
		}
		// The same without a Content-Length.
		res := e.raw("POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", MaxBodyBytes+1, fits(MaxBodyBytes+1)))
		if res.StatusCode != 413 {
			t.Errorf("a chunked body over the limit: %d", res.StatusCode)
		}
		// The body may be cut short of what it promised.
		conn, err := net.Dial("tcp", e.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"+body)
		_ = conn.(*net.TCPConn).CloseWrite()
		if res := readResponse(t, conn); res.StatusCode != 400 {
			t.Errorf("a body cut short: %d", res.StatusCode)
		}
	})
	g := e.post("reserve", `{"key":"media-key-0003"`+strings.Repeat(" ", MaxBodyBytes-24)+`}`)
	g.ok(201)
}

// Headers: 16 KiB pass, more is 431.
func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	ask := func(total int) int {
		head := "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Filler: "
		res := e.raw(head + strings.Repeat("f", total-len(head)-4) + "\r\n\r\n")
		return res.StatusCode
	}
	if got := ask(16<<10 - 512); got != 200 {
		t.Errorf("15.5 KiB of headers: %d", got)
	}
	if got := ask(16<<10 + 1); got != 431 {
		t.Errorf("over 16 KiB of headers: %d", got)
	}
}

// A body that dribbles in is given up on; a parked wait is cut neither by that
// limit nor by the request timeout.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *Options) { o.RequestTimeout = 100 * time.Millisecond })
	e.srv.bodyTime = 50 * time.Millisecond
	res := e.raw("POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
	if res.StatusCode != 400 {
		t.Errorf("a slow body: %d", res.StatusCode)
	}
	token := e.reserve("parked-key-0001", attemptA)
	answered := make(chan *got, 1)
	go func() {
		answered <- e.post("reserve", `{"key":"parked-key-0001","attemptId":"`+attemptB+`","wait":"20s"}`)
	}()
	waitFor(t, func() bool {
		e.node.mu.Lock()
		defer e.node.mu.Unlock()
		return len(e.node.decided) >= 2
	})
	// Longer than the limit on bodies: a condition that is there from the
	// start could not show that the limit is gone.
	timer := time.NewTimer(4 * e.srv.bodyTime)
	<-timer.C
	e.post("commit", `{"key":"parked-key-0001","token":"`+token+`"}`).ok(200)
	if g := <-answered; g.status != 200 || g.str("outcome") != "replayed" {
		t.Errorf("a parked duplicate: %d %s", g.status, g.raw)
	}
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	for i, err := range e.node.ctxErrs {
		if err != nil {
			t.Errorf("the context of decision %d ended: %v", i, err)
		}
	}
}

func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true within 10 s")
		}
		timer := time.NewTimer(time.Millisecond)
		<-timer.C
	}
}
