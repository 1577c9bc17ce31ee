package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// stored is all that callers can see of what is stored, but counted replays.
func (n *nodes) stored(namespaces ...string) string {
	n.t.Helper()
	var b strings.Builder
	for _, path := range []string{"/v1/namespaces", "/v1/audit"} {
		b.Write(n.must(200, n.get(0, path)).raw)
		b.WriteByte('\n')
	}
	for _, ns := range namespaces {
		b.Write(n.must(200, n.get(0, "/v1/namespaces/"+ns+"/records?limit=1000")).raw)
		b.WriteByte('\n')
	}
	return b.String()
}

// refusals asks one bad call of a follower and of the leader, and wants the
// same clear problem from both.
type refusals struct {
	t     *testing.T
	n     *nodes
	which []int // a follower, the leader
}

// want holds an answer against what it must be.
func (r *refusals) want(a *answer, status int, code, says, what string) {
	r.t.Helper()
	switch {
	case a.err != nil || a.status != status || a.Code != code:
		r.t.Errorf("%s: %s, want %d %s", what, a, status, code)
	case a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Location") != "":
		r.t.Errorf("%s: answered as %s", what, a.header.Get("Content-Type"))
	case !strings.Contains(a.Detail, says):
		r.t.Errorf("%s: detail %q does not name %s", what, a.Detail, says)
	}
}

// post wants an operation in namespace default refused.
func (r *refusals) post(op, text string, status int, code, says string, headers ...string) {
	r.t.Helper()
	for _, i := range r.which {
		a := r.n.do(i, "POST", "/v1/namespaces/default/"+op, text, headers...)
		r.want(a, status, code, says, fmt.Sprintf("%s %.120s %v through n%d", op, text, headers, i+1))
	}
}

// raw writes bytes to a port and gives the answer. cut ends the writing side
// early, which net/http takes for a hang-up.
func (r *refusals) raw(i int, text string, cut bool) *answer {
	r.t.Helper()
	conn, err := net.Dial("tcp", address(r.n.port[i]))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	if cut {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header}
	a.raw, _ = io.ReadAll(res.Body)
	a.read()
	return a
}

// head is the beginning of a bare request.
func head(method, target string, headers ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: onced\r\nConnection: close\r\n" + strings.Join(append(headers, "", ""), "\r\n")
}

// TestBadInput: every bad call gets a clear problem that names the field,
// never a 5xx, never a redirect, and nothing is stored.
func TestBadInput(t *testing.T) {
	t.Parallel()
	n := dev(t)
	leader := n.leader()
	r := &refusals{t, n, []int{(leader + 1) % 3, leader}}
	token := n.must(201, n.call(0, "default", "reserve", map[string]any{"key": "held-key-0001"})).Token
	before := n.stored("default")
	t.Run("keys", r.keys)
	t.Run("bodies", func(t *testing.T) { (&refusals{t, n, r.which}).bodies(token) })
	t.Run("media", func(t *testing.T) { (&refusals{t, n, r.which}).media() })
	t.Run("paths", func(t *testing.T) { (&refusals{t, n, r.which}).paths() })
	t.Run("bare", func(t *testing.T) { (&refusals{t, n, r.which}).bare() })
	if after := n.stored("default"); after != before {
		t.Errorf("something was stored:\n%s\nbefore it was\n%s", after, before)
	}
	n.settledState(0, 1, 2)
}

const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

func (r *refusals) keys(t *testing.T) {
	r = &refusals{t, r.n, r.which}
	const missing, invalid = "idempotency_key_missing", "idempotency_key_invalid"
	for _, text := range []string{`{}`, `{"key":""}`, `{"key":null}`, `{"key":"        "}`, `{"idempotencyKey":null}`} {
		r.post("reserve", text, 400, missing, "key")
	}
	for _, length := range []int{1, 7, 257, 5000} {
		r.post("reserve", `{"key":"`+strings.Repeat("k", length)+`"}`, 400, invalid, "key")
		if length < 5000 {
			r.post("reserve", `{}`, 400, invalid, "Idempotency-Key", "Idempotency-Key", strings.Repeat("k", length))
		}
	}
	for b := range 256 {
		if strings.IndexByte(allowed, byte(b)) >= 0 {
			continue
		}
		if b < 0x80 {
			r.post("reserve", fmt.Sprintf(`{"key":"forbid-\u%04x-0001"}`, b), 400, invalid, "key")
		} else {
			r.post("reserve", fmt.Sprintf(`{"key":"forbid-\u%04x-0001"}`, b), 400, invalid, "key")                 // a character
			r.post("reserve", "{\"key\":\"forbid-"+string([]byte{byte(b)})+"-0001\"}", 400, "invalid_request", "") // a byte that is no UTF-8
		}
		for _, i := range r.which {
			a := r.n.get(i, fmt.Sprintf("/v1/namespaces/default/records/forbid-%%%02X-0001", b))
			r.want(a, 400, invalid, "key", fmt.Sprintf("byte %#02x in a path", b))
		}
		if b >= 0x20 && b != 0x7f && b != '"' {
			for _, i := range r.which {
				a := r.raw(i, head("POST", "/v1/namespaces/default/reserve", "Content-Type: application/json", "Content-Length: 2",
					"Idempotency-Key: forbid-"+string([]byte{byte(b)})+"-0001")+"{}", false)
				r.want(a, 400, invalid, "Idempotency-Key", fmt.Sprintf("byte %#02x in the header", b))
			}
		}
	}
	for _, lines := range [][]string{
		{"Idempotency-Key", "first-key-0001", "Idempotency-Key", "second-key-0001"},
		{"Idempotency-Key", "first-key-0001", "Idempotency-Key", "first-key-0001"},
		{"Idempotency-Key", "first-key-0001, second-key-0001"},
		{"Idempotency-Key", `"open-key-0001`},
		{"Idempotency-Key", `"key-0000001";a=b`},
	} {
		r.post("reserve", `{}`, 400, invalid, "Idempotency-Key", lines...)
		r.post("reserve", `{"key":"first-key-0001"}`, 400, invalid, "Idempotency-Key", lines...)
	}
	r.post("reserve", `{"key":"body-key-0001"}`, 400, invalid, "differ", "Idempotency-Key", "other-key-0001")
	r.post("reserve", `{"key":"body-key-0001","idempotencyKey":"other-key-0001"}`, 400, invalid, "differ")
	r.post("reserve", `{"key":"`+strings.Repeat("k", 257)+`","fingerprint":{"kind":"trade","exchange":"kraken","symbol":"BTC-EUR","action":"buy","quantity":1,"mode":"live"}}`, 400, invalid, "key")
}

func (r *refusals) bodies(token string) {
	const invalid = "invalid_request"
	for _, c := range [][3]string{
		{"reserve", ``, "body"},
		{"reserve", `{`, ""},
		{"reserve", `[]`, ""},
		{"reserve", `"text"`, ""},
		{"reserve", `null`, ""},
		{"reserve", `{"key":"good-key-0001"} {}`, ""},
		{"reserve", `{"key":"good-key-0001","key":"good-key-0001"}`, "key"},
		{"reserve", `{"key":"good-key-0001","request":{"a":1,"a":2}}`, "request"},
		{"reserve", `{"key":"good-key-0001","request":{"b":{"a":1,"\u0061":2}}}`, "request"},
		{"reserve", `{"key":"good-key-0001","surprise":1}`, "surprise"},
		{"reserve", `{"Key":"good-key-0001"}`, "Key"},
		{"reserve", `{"key":"good-key-0001","token":"1"}`, "token"},
		{"reserve", `{"key":"good-key-0001","request":1e400}`, "request"},
		{"reserve", `{"key":"good-key-0001","request":[-1e400]}`, "request"},
		{"reserve", `{"key":"good-key-0001","request":"\ud800"}`, "request"},
		{"reserve", `{"key":"good-key-0001","request":{"\udc00":1}}`, "request"},
		{"reserve", "{\"key\":\"good-key-0001\",\"request\":\"\xff\"}", "request"},
		{"reserve", `{"key":12345678}`, "key"},
		{"reserve", `{"key":["good-key-0001"]}`, "key"},
		{"reserve", `{"key":"good-key-0001","request":1,"requestHash":"x"}`, "requestHash"},
		{"reserve", `{"key":"good-key-0001","requestHash":""}`, "requestHash"},
		{"reserve", `{"key":"good-key-0001","requestHash":"` + strings.Repeat("h", 129) + `"}`, "requestHash"},
		{"reserve", `{"key":"good-key-0001","operation":"` + strings.Repeat("o", 129) + `"}`, "operation"},
		{"reserve", `{"key":"good-key-0001","operation":"caf\u00e9"}`, "operation"},
		{"reserve", `{"key":"good-key-0001","attemptId":"short"}`, "attemptId"},
		{"reserve", `{"key":"good-key-0001","attemptId":"` + strings.Repeat("a", 129) + `"}`, "attemptId"},
		{"reserve", `{"key":"good-key-0001","attemptId":""}`, "attemptId"},
		{"reserve", `{"key":"good-key-0001","lease":"soon"}`, "lease"},
		{"reserve", `{"key":"good-key-0001","lease":30}`, "lease"},
		{"reserve", `{"key":"good-key-0001","lease":"-1s"}`, "lease"},
		{"reserve", `{"key":"good-key-0001","lease":"0s"}`, "lease"},
		{"reserve", `{"key":"good-key-0001","ttl":"1us"}`, "ttl"},
		{"reserve", `{"key":"good-key-0001","ttl":"8761h"}`, "ttl"},
		{"reserve", `{"key":"good-key-0001","wait":"61s"}`, "wait"},
		{"commit", `{"key":"held-key-0001","token":7}`, "token"},
		{"commit", `{"key":"held-key-0001","token":"seven"}`, "token"},
		{"commit", `{"key":"held-key-0001","token":"-7"}`, "token"},
		{"commit", `{"key":"held-key-0001","token":"` + token + `","errorCode":"E"}`, "errorCode"},
		{"commit", `{"key":"held-key-0001","token":"` + token + `","response":{"a":1,"a":1}}`, "response"},
		{"commit", `{"key":"held-key-0001","token":"` + token + `","expectedVersion":0}`, "expectedVersion"},
		{"commit", `{"key":"held-key-0001","token":"` + token + `","expectedVersion":-1}`, "expectedVersion"},
		{"commit", `{"key":"held-key-0001","token":"` + token + `","expectedVersion":"1"}`, "expectedVersion"},
		{"fail", `{"key":"held-key-0001","token":"` + token + `"}`, "errorCode"},
		{"extend", `{"key":"held-key-0001","token":"` + token + `","lease":"long"}`, "lease"},
		{"cancel", `{"key":"good-key-0001"}`, "reason"},
		{"resolve", `{"key":"held-key-0001","token":"` + token + `","verdict":"maybe","reason":"r","actor":"a"}`, "verdict"},
		{"resolve", `{"key":"held-key-0001","token":"` + token + `","verdict":"committed","actor":"a"}`, "reason"},
		{"resolve", `{"key":"held-key-0001","token":"` + token + `","verdict":"committed","reason":"r"}`, "actor"},
		{"batch", `{"operations":[]}`, "operations"},
		{"batch", `{"operations":{}}`, "operations"},
		{"batch", `{"operations":[` + strings.TrimSuffix(strings.Repeat(`{"op":"reserve"},`, 1001), ",") + `]}`, "operations"},
	} {
		r.post(c[0], c[1], 400, invalid, c[2])
	}
	for _, text := range []string{`{"key":"held-key-0001"}`, `{"key":"held-key-0001","token":null}`, `{"key":"held-key-0001","token":""}`} {
		r.post("commit", text, 400, "idempotency_token_missing", "token")
	}
	// In a batch the bad item says so, and which it is; the list goes on.
	for _, i := range r.which {
		items := []map[string]any{
			{"op": "reserve", "key": "short"},
			{"op": "reserve", "key": "good-key-0001", "wait": "1s"},
			{"op": "commit", "key": "held-key-0001"},
			{"op": "explode", "key": "held-key-0001"},
			{"key": "held-key-0001"},
		}
		for k, a := range r.n.batch(i, "default", items) {
			if a.status != 400 || !strings.Contains(a.Detail, fmt.Sprintf("operations[%d]", k)) {
				r.t.Errorf("item %d: %s", k, a)
			}
		}
	}
	for _, put := range [][2]string{
		{`{"ttl":"0s"}`, "ttl"},
		{`{"lease":"2h","maxLease":"1h"}`, "lease"},
		{`{"onExpired":"sometimes"}`, "onExpired"},
		{`{"preset":"loose"}`, "preset"},
		{`{"maxRecords":-1}`, "maxRecords"},
		{`{"maxResponseBytes":262145}`, "maxResponseBytes"},
		{`{"surprise":true}`, "surprise"},
	} {
		for _, i := range r.which {
			r.want(r.n.do(i, "PUT", "/v1/namespaces/default", put[0]), 400, invalid, put[1], "PUT "+put[0])
			r.want(r.n.do(i, "PUT", "/v1/namespaces/Not%20One", put[0]), 400, invalid, "namespace", "PUT of a malformed name")
		}
	}
}

func (r *refusals) media() {
	const text = `{"key":"media-key-0001"}`
	for _, headers := range [][]string{
		{"-", "Content-Type"},
		{"-", "Content-Type", "Content-Type", "text/plain"},
		{"-", "Content-Type", "Content-Type", "application/problem+json"},
		{"-", "Content-Type", "Content-Type", "application/json; charset=latin1"},
		{"Content-Type", "application/json"},
		{"Content-Encoding", "gzip"},
	} {
		r.post("reserve", text, 415, "unsupported_media_type", "Content-Type", headers...)
	}
	r.post("reserve", `{"key":"media-key-0001"`+strings.Repeat(" ", 1<<20)+`}`, 413, "request_too_large", "1 MiB")
	for _, h := range [][]string{
		{"Onced-Timeout", "soon"},
		{"Onced-Timeout", "0s"},
		{"Onced-Timeout", "-2s"},
		{"Onced-Timeout", "1s", "Onced-Timeout", "1s"},
		{"If-Match", `"1"`},
	} {
		r.post("reserve", text, 400, "invalid_request", h[0], h...)
	}
}

func (r *refusals) paths() {
	const records = "/v1/namespaces/default/records"
	for path, want := range map[string]string{
		"/v1/namespaces/default/records/..%2f..%2fb%2frecords%2fheld-key-0001": "400 idempotency_key_invalid",
		"/v1/namespaces/default/records/held%252dkey-0001":                     "400 idempotency_key_invalid",
		"/v1/namespaces/default/records/held-key-0001%00":                      "400 idempotency_key_invalid",
		"/v1/namespaces/default/records/short":                                 "400 idempotency_key_invalid",
		"/v1/namespaces/DEFAULT/records/held-key-0001":                         "400 invalid_request",
		"/v1/namespaces/..%2fb/records/held-key-0001":                          "400 invalid_request",
		"/v1/namespaces/default/../b/records/held-key-0001":                    "404 route_not_found",
		"/v1/namespaces/default/%2e%2e/b/records/held-key-0001":                "404 route_not_found",
		"/v1/namespaces/default/records//held-key-0001":                        "404 route_not_found",
		"//v1/namespaces/default/records/held-key-0001":                        "404 route_not_found",
		"/./v1/namespaces/default/records/held-key-0001":                       "404 route_not_found",
		records + "/held-key-0001/":                                            "404 route_not_found",
		records + "/":                                                          "404 route_not_found",
		"/v1/namespaces/default%2frecords/held-key-0001":                       "404 route_not_found",
		"/V1/namespaces/default/records/held-key-0001":                         "404 route_not_found",
		"/healthz/":                  "404 route_not_found",
		"/v1":                        "404 route_not_found",
		"//":                         "404 route_not_found",
		records + "?surprise=1":      "400 invalid_request",
		records + "?limit=0":         "400 invalid_request",
		records + "?limit=1&limit=2": "400 invalid_request",
		records + "?status=done":     "400 invalid_request",
		records + "/held-key-0001?consistency=eventual":   "400 invalid_request",
		records + "/held-key-0001?minIndex=-1":            "400 invalid_request",
		"/v1/namespaces/default/reserve":                  "405 method_not_allowed",
		"/v1/namespaces/no-such-ns/records/held-key-0001": "404 namespace_not_found",
		records + "/never-seen-0001":                      "404 idempotency_not_found",
	} {
		for _, i := range r.which {
			a := r.raw(i, head("GET", path), false)
			if got := fmt.Sprint(a.status, " ", a.Code); got != want {
				r.t.Errorf("GET %s: %s, want %s", path, a, want)
			}
			if a.header.Get("Location") != "" || a.header.Get("Content-Type") != "application/problem+json" {
				r.t.Errorf("GET %s: %v", path, a.header)
			}
			if a.status == 405 && !strings.Contains(a.header.Get("Allow"), "POST") {
				r.t.Errorf("GET %s: Allow %q", path, a.header.Get("Allow"))
			}
		}
	}
	for _, path := range []string{
		"/v1/namespaces/default/reserve/", "/v1/namespaces/default/./reserve", "/v1/namespaces/default//reserve",
		"/v1/namespaces/default/x/../reserve", "//v1/namespaces/default/reserve", "/v1/namespaces/default/reserve%2f",
	} {
		for _, i := range r.which {
			a := r.raw(i, head("POST", path, "Content-Type: application/json", "Content-Length: 23")+`{"key":"path-key-0001"}`, false)
			r.want(a, 404, "route_not_found", "", "POST "+path)
		}
	}
}

// bare is what no HTTP library would send.
func (r *refusals) bare() {
	const target = "/v1/namespaces/default/reserve"
	const json = "Content-Type: application/json"
	const text = `{"key":"bare-key-0001"}`
	for _, i := range r.which {
		for what, c := range map[string]struct {
			request string
			status  int
		}{
			"a body cut short":            {head("POST", target, json, "Content-Length: 99") + text, 400},
			"a chunked body over 1 MiB":   {head("POST", target, json, "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s%s\r\n0\r\n\r\n", 1<<20+len(text), text, strings.Repeat(" ", 1<<20)), 413},
			"17 KiB of headers":           {head("POST", target, json, "Content-Length: 23", "X-Filler: "+strings.Repeat("f", 17<<10)) + text, 431},
			"no host":                     {"POST " + target + " HTTP/1.1\r\n" + json + "\r\nContent-Length: 23\r\n\r\n" + text, 400},
			"a negative length":           {head("POST", target, json, "Content-Length: -1") + text, 400},
			"two lengths":                 {head("POST", target, json, "Content-Length: 23", "Content-Length: 22") + text, 400},
			"a broken chunk":              {head("POST", target, json, "Transfer-Encoding: chunked") + "zz\r\n" + text, 400},
			"not HTTP":                    {"reserve bare-key-0001\r\n\r\n", 400},
			"a space before the colon":    {head("POST", target, json, "Idempotency-Key : bare-key-0001", "Content-Length: 2") + "{}", 400},
			"a header folded over a line": {head("POST", target, json, "Idempotency-Key: bare-key\r\n -0001", "Content-Length: 2") + "{}", 400},
			"a NUL in a header":           {head("POST", target, json, "Idempotency-Key: bare-key\x000001", "Content-Length: 2") + "{}", 400},
			"an unknown method":           {head("SETTLE", target, json, "Content-Length: 23") + text, 405},
			"a long path":                 {head("GET", "/v1/namespaces/default/records/"+strings.Repeat("k", 9000)), 400},
		} {
			a := r.raw(i, c.request, what == "a body cut short")
			if a.status != c.status {
				r.t.Errorf("%s, to n%d: %s, want %d", what, i+1, a, c.status)
			}
		}
	}
}
