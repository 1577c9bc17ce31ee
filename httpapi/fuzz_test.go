package httpapi

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// fuzzServer is shared by the calls of one process, so that inputs meet
// records of each other's.
var fuzzServer = sync.OnceValue(func() *Server {
	node := newFakeNode()
	node.noWait = true
	return New(Options{Node: node})
})

// sane holds an answer to any input against what holds for all: no 5xx but
// 503, no redirect, refusals are problems, bodies are JSON.
func sane(t *testing.T, r *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	fuzzServer().ServeHTTP(w, r)
	if w.Code >= 500 && w.Code != 503 || w.Code >= 300 && w.Code < 400 || w.Header().Get("Location") != "" {
		t.Fatalf("%s %q: status %d: %s", r.Method, r.URL, w.Code, w.Body)
	}
	ct := w.Header().Get("Content-Type")
	if w.Code >= 400 && r.Method != http.MethodHead && ct != "application/problem+json" {
		t.Fatalf("%s %q: %d as %q", r.Method, r.URL, w.Code, ct)
	}
	if strings.Contains(ct, "json") && r.Method != http.MethodHead && !jsontext.Value(w.Body.Bytes()).IsValid() {
		t.Fatalf("%s %q: not JSON: %s", r.Method, r.URL, w.Body)
	}
	for name, lines := range w.Header() {
		for _, v := range lines {
			if strings.ContainsAny(v, "\r\n\x00") {
				t.Fatalf("header %s: %q", name, v)
			}
		}
	}
}

// FuzzHTTP takes a whole request as it comes off the wire.
func FuzzHTTP(f *testing.F) {
	const body = `{"key":"fuzz-key-0001","request":{"a":[1,2.50]},"lease":"1s"}`
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 62\r\n\r\n" + body,
		"POST /v1/namespaces/default/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2d\r\n" + `{"operations":[{"op":"reserve","key":"short"}]}` + "\r\n0\r\n\r\n",
		"PUT /v1/namespaces/fuzz HTTP/1.1\r\nHost: x\r\nIf-Match: \"1\"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"GET /v1/namespaces/default/records/..%2f..%2fx?consistency=local&minIndex=1 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"a\", b\r\nOnced-Timeout: 1h\r\n\r\n",
		"DELETE /v1/namespaces/fuzz?force=true HTTP/1.1\r\nHost: x\r\nX-Correlation-ID: \xff\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			t.Skip("no input that a client could send")
		}
		sane(t, r)
	})
}

// FuzzOperation takes the body and the key header of an operation.
func FuzzOperation(f *testing.F) {
	ops := append(sortedKeys(decoders), "batch")
	for i, s := range []string{
		`{"key":"fuzz-key-0001","reason":"r"}`, `{"key":"fuzz-key-0001","token":"5","response":{"a":1e400,"password":"x"}}`,
		`{"key":"fuzz-key-0001","token":"5","lease":"1s"}`, `{"key":"fuzz-key-0001","token":"5","errorCode":"x","response":null}`,
		`{"key":"fuzz-key-0001","token":"5","expectedVersion":2}`, `{"fingerprint":` + trade + `,"ttl":"1h","wait":"1s","requestHash":"req-1"}`,
		`{"key":"fuzz-key-0001","token":"5","verdict":"failed","reason":"r","actor":"a"}`,
		`{"operations":[{"op":"reserve","key":"fuzz-key-0001","attemptId":"aaaaaaaaaaaaaaaa"},{"op":"cancel"},7]}`,
	} {
		f.Add(uint8(i), []byte(s), "")
		f.Add(uint8(i), []byte(s), `"fuzz-key-0001"`)
	}
	f.Fuzz(func(t *testing.T, op uint8, body []byte, key string) {
		r := httptest.NewRequest("POST", "/v1/namespaces/default/"+ops[int(op)%len(ops)], bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		sane(t, r)
	})
}

// FuzzPath takes a path as it was escaped.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"default/records/fuzz-key-0001", "a/../b", "%2e%2e%2f", "default/records/%00", "default/records?limit=5&status=pending", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		raw := "GET /v1/namespaces/" + path + " HTTP/1.1\r\nHost: x\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			t.Skip("no input that a client could send")
		}
		sane(t, r)
	})
}
