package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onced/onced/gateway"
)

// seen is what an upstream saw.
type seen struct {
	mu   sync.Mutex
	list []string
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.list = append(s.list, fmt.Sprintf("%s %s key=%q auth=%q te=%q body=%q", r.Method, r.RequestURI, r.Header["Idempotency-Key"], r.Header["Authorization"], r.TransferEncoding, b))
	s.mu.Unlock()
	w.WriteHeader(201)
}

func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// raw sends bytes to the gateway and gives the statuses of all answers. It closes
// its half after the first, or before it when the request is to end early: to
// net/http that is a caller that hangs up.
func (f *front) raw(t *testing.T, bytes string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, bytes); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(bytes, "Content-Length: 9") {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if statuses = append(statuses, res.StatusCode); res.StatusCode != 100 {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
}

// The lines of public-bugs.md on headers, over raw sockets: refused, or seen by
// the upstream as the gateway saw them.
func TestHeaders_Smuggling(t *testing.T) {
	t.Parallel()
	up := &seen{}
	upstream := httptest.NewServer(up)
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{})
	n := 0
	for _, c := range []struct {
		name, request string // KEY is a fresh key
		status        int
		saw           string // "": the upstream was not called
	}{
		{"plain", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 2\r\n\r\nhi", 201, `POST /x key=["KEY"] auth=[] te=[] body="hi"`},
		{"Connection names the key", "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close, Idempotency-Key, Authorization\r\nAuthorization: b\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"Connection names it in another case", "POST /x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: ,iDEMPOTENCY-kEY \r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"Connection names Authorization", "POST /x HTTP/1.1\r\nHost: a\r\nConnection: authorization\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"Connection names Content-Type", "POST /x HTTP/1.1\r\nHost: a\r\nConnection: content-type\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"Connection names it on a GET", "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Idempotency-Key\r\nIdempotency-Key: KEY\r\n\r\n", 400, ""},
		{"two keys", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"two keys, other case", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nidempotency-key: order-9999\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"a list", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY, order-9999\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"raw 0xFF", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\xff\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"NUL", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\x00\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"folded line", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\n order\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"space before the colon", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key : KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"underscore", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency_Key: KEY\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"underscore beside it", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nIdempotency_Key: order-9999\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"no key", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"the method in another case", "post /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"method override", "GET /x HTTP/1.1\r\nHost: a\r\nX-HTTP-Method-Override: post\r\n\r\n", 400, ""},
		{"length and chunks", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 201, `POST /x key=["KEY"] auth=[] te=[] body="hi"`},
		{"chunks", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 201, `POST /x key=["KEY"] auth=[] te=[] body="hi"`},
		{"two transfer encodings", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501, ""},
		{"an unknown transfer encoding", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, ""},
		{"two lengths", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", 400, ""},
		{"a shorter body than promised", "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 9\r\n\r\nhi", 400, ""},
		{"upgrade", "POST /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nIdempotency-Key: KEY\r\nContent-Length: 2\r\n\r\nhi", 201, `POST /x key=["KEY"] auth=[] te=[] body="hi"`},
		{"expect", "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nIdempotency-Key: KEY\r\nContent-Length: 2\r\n\r\nhi", 201, `POST /x key=["KEY"] auth=[] te=[] body="hi"`},
		{"query is kept as sent", "POST /x?a=%zz;b&c HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 201, `POST /x?a=%zz;b&c key=["KEY"] auth=[] te=[] body=""`},
		{"authorization passes", "POST /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer b\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n", 201, `POST /x key=["KEY"] auth=["Bearer b"] te=[] body=""`},
	} {
		n++
		key := fmt.Sprintf("order-%04d", n)
		statuses := f.raw(t, strings.ReplaceAll(c.request, "KEY", key))
		saw := up.take()
		// An early 100 is net/http's own.
		for len(statuses) > 0 && statuses[0] == 100 {
			statuses = statuses[1:]
		}
		if len(statuses) != 1 || statuses[0] != c.status {
			t.Errorf("%s: answered %v, want %d", c.name, statuses, c.status)
		}
		want := []string{strings.ReplaceAll(c.saw, "KEY", key)}
		if c.saw == "" {
			want = nil
		}
		if strings.Join(saw, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: the upstream saw\n%q\nwant\n%q", c.name, saw, want)
		}
		if c.saw == "" {
			f.want(t, key, "")
		}
	}
	// What follows a request whose framing could be read in two ways never gets
	// to be a request of its own.
	f.raw(t, "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: order-8888\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /y HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	for _, line := range up.take() {
		if strings.Contains(line, "/y") && !strings.Contains(line, "key=[\"") {
			t.Errorf("smuggled: %s", line)
		}
	}
}

// With rules for paths, no spelling of a path gets around its rule.
func TestB62_PathsOfRules(t *testing.T) {
	t.Parallel()
	up := &seen{}
	upstream := httptest.NewServer(up)
	defer upstream.Close()
	f := frontOf(t, gateway.Rule{Path: "/orders"}, gateway.Rule{Path: "/admin/*", Methods: []string{"POST"}})
	set := func(rules ...gateway.Rule) {
		for i := range rules {
			rules[i].Upstream = mustURL(t, upstream.URL)
		}
		if err := f.guard.SetRules(rules); err != nil {
			t.Fatal(err)
		}
	}
	set(gateway.Rule{Path: "/orders"}, gateway.Rule{Path: "/admin/*", Methods: []string{"POST"}})
	f.serve(f.guard.Proxy())
	for path, status := range map[string]int{
		"/orders": 400, "/%6frders": 400, // guarded, and no key
		"/orders/": 404, "/Orders": 404, "/other": 404, "/": 404,
		"//orders": 400, "/./orders": 400, "/x/../orders": 400, "/x/%2e%2e/orders": 400, "/x%2forders": 400, "/orders;a": 400, "/orders%00": 400, "/x\\orders": 400,
		"/admin/": 400, "/admin/x": 400, "/admin": 404, "/admin/..": 400,
	} {
		got := f.raw(t, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		if len(got) != 1 || got[0] != status {
			t.Errorf("%s: %v, want %d", path, got, status)
		}
	}
	if saw := up.take(); len(saw) != 0 {
		t.Errorf("the upstream saw %q", saw)
	}
	f.is(f.post("/orders", "order-0001", ""), 201, "")
	f.is(f.send("PUT", "/admin/x", "", ""), 201, "")
	// Other rules from now on.
	set(gateway.Rule{Path: "/orders", Methods: []string{"PUT"}})
	f.is(f.post("/orders", "", ""), 201, "")
	f.is(f.post("/admin/x", "order-0002", ""), 404, "route_not_found")
}
