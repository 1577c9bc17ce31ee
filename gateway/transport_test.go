package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/gateway"
)

// cutter is an exchange that does each order, and from the nth use of a
// connection on cuts it instead of answering.
func cutter(x *exchange, from int) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for use := 1; ; use++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			x.did(req.Header.Get("Idempotency-Key"))
			if use >= from {
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}
}

// The net/http fact of public-bugs.md: a request with an Idempotency-Key is
// repeated when a re-used connection breaks. One effect each, whatever breaks.
func TestTransport_CutAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, body := range []string{"", `{"a":1}`, strings.Repeat("x", 100_000)} {
			for _, from := range []int{1, 2, 3} {
				t.Run(fmt.Sprintf("%s %d bytes, use %d", method, len(body), from), func(t *testing.T) {
					t.Parallel()
					x := &exchange{}
					f := newFront(t, x.start(t, cutter(x, from)), gateway.Rule{})
					for use := 1; use <= from+1; use++ {
						key := fmt.Sprintf("order-%04d", use)
						g := f.send(method, "/orders", key, body, "Content-Type", "text/plain")
						// The connection is in use up to the cut; the one after it is new.
						if use%from == 0 {
							f.is(g, 502, "idempotency_uncertain")
							f.is(f.send(method, "/orders", key, body, "Content-Type", "text/plain"), 409, "idempotency_in_flight")
							f.want(t, key, "pending")
						} else {
							f.is(g, 200, "")
							f.want(t, key, "committed")
						}
						if n := x.count(key); n != 1 {
							t.Errorf("%s was done %d times", key, n)
						}
					}
				})
			}
		}
	}
}

// TestTransport_PlainProxyRepeats shows that the trap is real: what net/http
// does to the same request without the rule.
func TestTransport_PlainProxyRepeats(t *testing.T) {
	t.Parallel()
	x := &exchange{}
	upstream := x.start(t, cutter(x, 2))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for use := 1; use <= 2; use++ {
		req, _ := http.NewRequest("POST", upstream, nil)
		req.Header.Set("Idempotency-Key", fmt.Sprintf("order-%04d", use))
		if res, err := transport.RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	if n := x.count("order-0002"); n < 2 {
		t.Errorf("net/http sent it %d times: the trap is gone, and the rule may be looked at again", n)
	}
}

// Unguarded methods that are not safe are not repeated either.
func TestTransport_UnguardedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "abc"} {
		x := &exchange{}
		f := newFront(t, x.start(t, cutter(x, 2)), gateway.Rule{Methods: []string{"PATCH"}})
		f.is(f.post("/orders", "order-0001", body), 200, "")
		f.is(f.post("/orders", "order-0002", body), 502, "upstream_failed")
		if n := x.count("order-0002"); n != 1 {
			t.Errorf("done %d times", n)
		}
	}
}

// What goes over the wire for a call without a body: one Content-Length of 0,
// no chunks, and the connection is used again.
func TestTransport_EmptyBodyOnTheWire(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		x := &exchange{}
		heads := make(chan string, 2)
		conns := 0
		upstream := x.start(t, func(conn net.Conn) {
			conns++
			r := bufio.NewReader(conn)
			for {
				head := ""
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					head += line
					if line == "\r\n" {
						break
					}
				}
				heads <- strings.ToLower(head)
				fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		f := newFront(t, upstream, gateway.Rule{})
		for i := range 2 {
			f.is(f.send(method, "/x", fmt.Sprintf("order-%04d", i), ""), 204, "")
			head := <-heads
			lengths := strings.Count(head, "content-length: 0\r\n")
			if want := map[bool]int{true: 0, false: 1}[method == "DELETE"]; lengths != want || strings.Count(head, "content-length") != want ||
				strings.Contains(head, "transfer-encoding") || strings.Contains(head, "connection:") {
				t.Errorf("%s:\n%s", method, head)
			}
		}
		x.mu.Lock()
		if len(x.conns) != 1 {
			t.Errorf("%s: %d connections", method, len(x.conns))
		}
		x.mu.Unlock()
	}
}

// A connection that went stale while it was idle, and on which nothing was
// written, is not in doubt: the request is sent once more, or given back.
func TestTransport_StaleConnection(t *testing.T) {
	t.Parallel()
	x := &exchange{}
	closed := make(chan struct{}, 100)
	upstream := x.start(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		x.did(req.Header.Get("Idempotency-Key"))
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		conn.Close() // without having said so
		closed <- struct{}{}
	})
	f := newFront(t, upstream, gateway.Rule{})
	for i := range 50 {
		key := fmt.Sprintf("order-%04d", i)
		g := f.post("/x", key, "{}")
		if x.count(key) > 0 {
			<-closed
		}
		// Nothing tells for sure that the close arrived before the next request
		// was written; whichever it was, nothing is done twice, and a request
		// that was not written is not in doubt.
		if g.status == 502 && g.code == "upstream_unreachable" {
			f.want(t, key, "released")
			if x.count(key) != 0 {
				t.Errorf("%s was released and done", key)
			}
		} else if g.status != 200 && g.code != "idempotency_uncertain" {
			t.Errorf("answered %d %s", g.status, g.body)
		}
		if x.count(key) > 1 {
			t.Errorf("%s was done %d times", key, x.count(key))
		}
	}
}

func TestTransport_NothingSentIsReleased(t *testing.T) {
	t.Parallel()
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := refused.Addr().String()
	refused.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	silent := &exchange{}
	silentURL := silent.start(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, upstream := range map[string]string{
		"connection refused":                 "http://" + address,
		"no such name":                       "http://no-such-host.invalid",
		"TLS to a plain server":              "https://" + plain.Listener.Addr().String(),
		"TLS handshake that is not answered": strings.Replace(silentURL, "http:", "https:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, upstream, gateway.Rule{Timeout: time.Second})
			for range 2 { // the key is free again
				g := f.is(f.post("/x", "order-0001", "{}"), 502, "upstream_unreachable")
				if g.header.Get("Onced-Outcome") != "released" {
					t.Errorf("headers: %v", g.header)
				}
				f.want(t, "order-0001", "released")
			}
		})
	}
}

// Whatever comes after something was sent is in doubt, and not asked again.
func TestTransport_DoubtIsUncertain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		hang   bool
		status int
	}{
		"no answer":                  {"", true, 504},
		"half a head":                {"HTTP/1.1 200 OK\r\nContent-Le", true, 504},
		"half a body, silence":       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", true, 504},
		"half a body, cut":           {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", false, 502},
		"not HTTP":                   {"hello\r\n\r\n", false, 502},
		"cut at once":                {"", false, 502},
		"a status that is none":      {"HTTP/1.1 xyz\r\n\r\n", false, 502},
		"two lengths":                {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12", false, 502},
		"switching protocols":        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", false, 502},
		"informational, then silent": {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", true, 504},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &exchange{}
			upstream := x.start(t, func(conn net.Conn) {
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				x.did(req.Header.Get("Idempotency-Key"))
				fmt.Fprint(conn, c.answer)
				if c.hang {
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			timeout := 20 * time.Second
			if c.hang {
				timeout = 300 * time.Millisecond
			}
			f := newFront(t, upstream, gateway.Rule{Timeout: timeout})
			g := f.is(f.post("/x", "order-0001", "{}"), c.status, "idempotency_uncertain")
			if g.header.Get("Onced-Outcome") != "uncertain" || !strings.Contains(string(g.body), `"key":"order-0001"`) {
				t.Errorf("%v %s", g.header, g.body)
			}
			f.is(f.post("/x", "order-0001", "{}"), 409, "idempotency_in_flight")
			f.set(func() { f.ahead = timeout + 11*time.Second })
			f.is(f.post("/x", "order-0001", "{}"), 409, "idempotency_uncertain")
			f.want(t, "order-0001", "uncertain")
			if n := x.count("order-0001"); n != 1 {
				t.Errorf("done %d times", n)
			}
		})
	}
}

// A caller that hangs up while the upstream works loses the answer alone.
func TestB48_CallerHangsUp(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
			t.Error("the upstream call ended with the caller")
		}
		fmt.Fprint(w, "filled")
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", f.server.URL+"/x", nil)
	req.Header.Set("Idempotency-Key", "order-0001")
	gone := make(chan struct{})
	go func() { defer close(gone); f.do(req) }()
	<-arrived
	cancel()
	<-gone
	f.is(f.post("/x", "order-0001", ""), 409, "idempotency_in_flight")
	close(answer)
	eventually(t, "the outcome is recorded", func() bool {
		rec := f.record(t, "order-0001")
		return rec != nil && rec.Status == "committed"
	})
	if g := f.is(f.post("/x", "order-0001", ""), 200, ""); string(g.body) != "filled" || g.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%v %s", g.header, g.body)
	}
}
