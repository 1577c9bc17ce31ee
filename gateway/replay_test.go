package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/gateway"
)

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

// B49, B51: a replay is the first answer, byte for byte, with its headers.
func TestB49_B51_ReplayIsExact(t *testing.T) {
	t.Parallel()
	type answer struct {
		status int
		header http.Header
		body   []byte
	}
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"
	keyIn64, err := base64.StdEncoding.DecodeString("AKIAABCDEFGHIJKLMNOP") // has the shape of a secret only in base64
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]answer{
		"/bytes":    {200, http.Header{"Content-Type": {"application/octet-stream"}}, allBytes()},
		"/gzip":     {200, http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}}, zipped("filled")},
		"/empty":    {204, http.Header{"X-Fill": {"1"}}, nil},
		"/nothing":  {201, http.Header{"Location": {"/orders/1"}}, nil},
		"/values":   {200, http.Header{"Vary": {"Accept", "Origin"}, "Link": {"</a>; rel=x", "</b>, </c>"}, "X-Empty": {""}}, []byte("v")},
		"/json":     {201, http.Header{"Content-Type": {"application/json"}}, []byte("{\"n\":9007199254740993,\"s\":\"\\u00e9\\/\", \"t\" : 1.50}\n")},
		"/utf8":     {200, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, []byte("é\u2028\u0000\x7f\"\\ \ufffd")},
		"/untyped":  {200, http.Header{"X-Fill": {"1"}}, []byte("<html>no type")},
		"/latin1":   {200, http.Header{"X-Name": {"caf\xe9"}, "Content-Type": {"text/plain"}}, []byte("caf\xe9")},
		"/secret":   {200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"password":"p","key":"AKIAABCDEFGHIJKLMNOP"}`)},
		"/key64":    {200, http.Header{"Content-Type": {"application/octet-stream"}}, keyIn64},
		"/jwt":      {200, http.Header{"X-Session": {jwt}, "Content-Type": {"text/plain"}}, []byte("token " + jwt)},
		"/see":      {303, http.Header{"Location": {"https://example.org/?token=" + jwt}}, nil},
		"/notfound": {404, http.Header{"Content-Type": {"text/html"}}, []byte("<h1>no</h1>")},
		"/big":      {200, http.Header{"Content-Type": {"text/plain"}}, bytes.Repeat([]byte("x"), 60_000)},
	}
	var runs atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		a := answers[r.URL.Path]
		for name, v := range a.header {
			w.Header()[name] = v
		}
		if a.header["Content-Type"] == nil {
			w.Header()["Content-Type"] = nil
		}
		w.Header().Add("Set-Cookie", "session=1")
		w.Header().Set("Server", "exchange")
		w.Header().Set("Www-Authenticate", "Basic")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{}) // the namespace default redacts: the recording must not be
	for path, a := range answers {
		key := "key-" + strings.ReplaceAll(path, "/", "0000")
		first := f.is(f.post(path, key, ""), a.status, "")
		if !bytes.Equal(first.body, a.body) || first.header.Get("Set-Cookie") == "" || first.header.Get("Server") != "exchange" {
			t.Errorf("%s: the first answer is not whole: %v %.100q", path, first.header, first.body)
		}
		for range 2 {
			again := f.post(path, key, "")
			f.same(first, again)
			for name, v := range a.header {
				if !slices.Equal(again.header[name], v) {
					t.Errorf("%s: %s is %q, was %q", path, name, again.header[name], v)
				}
			}
			for _, name := range []string{"Set-Cookie", "Server", "Www-Authenticate", "Keep-Alive", "Onced-Response-Omitted"} {
				if again.header.Get(name) != "" {
					t.Errorf("%s: %s is replayed", path, name)
				}
			}
			if _, typed := a.header["Content-Type"]; !typed && again.header.Get("Content-Type") != "" {
				t.Errorf("%s: Content-Type %q out of nothing", path, again.header.Get("Content-Type"))
			}
		}
		rec := f.record(t, key)
		if len(rec.Redacted) != 0 || rec.ResponseOmitted {
			t.Errorf("%s: recorded %s, redacted %v", path, rec.Response, rec.Redacted)
		}
	}
	if int(runs.Load()) != len(answers) {
		t.Errorf("%d runs", runs.Load())
	}
}

// A body that is larger than the namespace takes is left out; the status and
// the headers are replayed, and the first caller has all of it.
func TestReplay_LargeBodyIsOmitted(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/orders/1")
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		w.WriteHeader(201)
		_, _ = w.Write(body)
	}))
	defer upstream.Close()
	for name, rule := range map[string]gateway.Rule{"large": {}, "status only": {StatusOnly: true}, "capped": {MaxBody: 100}} {
		f := newFront(t, upstream.URL, rule)
		for _, path := range []string{"/length", "/chunked"} {
			key := "order" + strings.ReplaceAll(path, "/", "-")
			first := f.is(f.post(path, key, ""), 201, "")
			if !bytes.Equal(first.body, body) {
				t.Errorf("%s: the first caller has %d bytes", name, len(first.body))
			}
			again := f.is(f.post(path, key, ""), 201, "")
			if len(again.body) != 0 || again.header.Get("Onced-Response-Omitted") != "true" || again.header.Get("Location") != "/orders/1" || again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s: %v, %d bytes", name, again.header, len(again.body))
			}
		}
	}
}

// The end of an answer that passes through waits for the record: whoever has all
// of it can rely on it.
func TestReplay_TheEndWaitsForTheRecord(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("x"), 1<<20)
	for _, length := range []bool{true, false} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if length {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			}
			_, _ = w.Write(body)
		}))
		defer upstream.Close()
		f := newFront(t, upstream.URL, gateway.Rule{})
		whole := make(chan struct{})
		early := false
		f.set(func() {
			f.settled = func() error { // the caller has a moment to get it all too early
				f.settled = nil
				timer := time.NewTimer(200 * time.Millisecond)
				defer timer.Stop()
				select {
				case <-whole:
					early = true
				case <-timer.C:
				}
				return nil
			}
		})
		if g := f.is(f.post("/x", "order-0001", ""), 200, ""); !bytes.Equal(g.body, body) {
			t.Errorf("%d bytes", len(g.body))
		}
		close(whole)
		f.want(t, "order-0001", "committed")
		if f.set(func() {}); early {
			t.Errorf("length %t: the caller had the whole answer before it was recorded", length)
		}
	}
}

// The JSON that is kept counts, whatever a namespace takes.
func TestReplay_LimitsOfTheNamespace(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain"}
		_, _ = w.Write(bytes.Repeat([]byte("\x01"), 200)) // six characters of JSON each
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{Namespace: "small"})
	for limit, omitted := range map[int]bool{1000: true, 1400: false} {
		f.policy(t, "small", fmt.Sprintf(`{"maxResponseBytes":%d}`, limit))
		if err := f.guard.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("order-%04d", limit)
		f.is(f.post("/x", key, ""), 200, "")
		again := f.is(f.post("/x", key, ""), 200, "")
		if (again.header.Get("Onced-Response-Omitted") == "true") != omitted {
			t.Errorf("limit %d: %v", limit, again.header)
		}
	}
	// A limit that was lowered unseen leaves nothing to replay, and says so.
	f.policy(t, "small", `{"maxResponseBytes":10}`)
	f.is(f.post("/x", "order-0000", ""), 200, "")
	f.is(f.post("/x", "order-0000", ""), 409, "idempotency_duplicate")
}

func TestReplay_OnlyListedHeaders(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-A"], w.Header()["X-B"] = []string{"1", "2"}, []string{"3"}
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		fmt.Fprint(w, "ok")
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{Headers: []string{"x-a", "X-Hop"}})
	f.is(f.post("/x", "order-0001", ""), 200, "")
	g := f.is(f.post("/x", "order-0001", ""), 200, "")
	if !slices.Equal(g.header["X-A"], []string{"1", "2"}) || g.header["X-B"] != nil || g.header["X-Hop"] != nil {
		t.Errorf("%v", g.header)
	}
}

// Server-sent events go through as they come, and are replayed whole when they
// fit.
func TestReplay_ServerSentEvents(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{})
	req, _ := http.NewRequest("POST", f.server.URL+"/x", nil)
	req.Header.Set("Idempotency-Key", "order-0001")
	res, err := f.caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for i := range 3 {
		line, err := r.ReadString('\n') // before the upstream goes on
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = r.ReadString('\n')
		f.want(t, "order-0001", "pending")
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("%q %v", rest, err)
	}
	f.want(t, "order-0001", "committed") // the end was told after it was recorded
	again := f.is(f.post("/x", "order-0001", ""), 200, "")
	if string(again.body) != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || again.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %q", again.header, again.body)
	}
}

// An answer that breaks off after it began to pass breaks off for the caller.
func TestReplay_CutStream(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{})
	if g := f.post("/x", "order-0001", ""); g.err == nil {
		t.Errorf("a cut answer came as whole: %d %q", g.status, g.body)
	}
	f.is(f.post("/x", "order-0001", ""), 409, "idempotency_in_flight")
}

// Trailers reach the first caller.
func TestReplay_Trailers(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "4")
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{})
	req, _ := http.NewRequest("POST", f.server.URL+"/x", nil)
	req.Header.Set("Idempotency-Key", "order-0001")
	res, err := f.caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(b) != "body" || res.Trailer.Get("X-Sum") != "4" {
		t.Errorf("%q, trailer %v", b, res.Trailer)
	}
	if g := f.is(f.post("/x", "order-0001", ""), 200, ""); string(g.body) != "body" {
		t.Errorf("%q", g.body)
	}
}
