package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// wireConn is the server's end of two pipes, one a direction, so that a client
// can end what it says and still listen, as over TCP.
type wireConn struct {
	in, out net.Conn
	methods []string // of the requests that reached the handler, in order
}

func (c *wireConn) Read(b []byte) (int, error)         { return c.in.Read(b) }
func (c *wireConn) Write(b []byte) (int, error)        { return c.out.Write(b) }
func (c *wireConn) Close() error                       { return errors.Join(c.in.Close(), c.out.Close()) }
func (c *wireConn) LocalAddr() net.Addr                { return c.in.LocalAddr() }
func (c *wireConn) RemoteAddr() net.Addr               { return c.in.RemoteAddr() }
func (c *wireConn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *wireConn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c *wireConn) SetDeadline(t time.Time) error {
	return errors.Join(c.in.SetDeadline(t), c.out.SetDeadline(t))
}

// wireListener accepts what is put into it, until it is closed.
type wireListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *wireListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wireListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *wireListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

type wireKey struct{}

// startWire runs the server that the product runs on a listener of pipes.
func startWire(tb testing.TB) *wireListener {
	node := newFakeNode()
	node.noWait = true
	api := New(Options{Node: node})
	srv := NewHTTPServer(api)
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(wireKey{}).(*wireConn)
		c.methods = append(c.methods, r.Method)
		api.ServeHTTP(w, r)
	})
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, wireKey{}, c) }
	l := &wireListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	tb.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("Serve: %v", err)
		}
	})
	return l
}

// FuzzWire writes whatever bytes to the HTTP server itself, its parser and
// limits included. What comes back is whole answers, each of them what an answer
// of ours is or one of the few that net/http gives on its own.
func FuzzWire(f *testing.F) {
	const body = `{"key":"wire-key-0001","request":{"a":[1,2.50]},"lease":"1s"}`
	post := "POST /v1/namespaces/default/reserve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, s := range []string{
		"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\nDELETE /v1/namespaces/x HTTP/1.1\r\nHost: x\r\n\r\n",
		post + "Content-Length: 62\r\n\r\n" + body + "GET /v1/namespaces/default/records/wire-key-0001 HTTP/1.1\r\nHost: x\r\n\r\n",
		post + "Content-Length: 62\r\nTransfer-Encoding: chunked\r\n\r\n3e\r\n" + body + "\r\n0\r\n\r\n",
		post + "Transfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n3e;x=y\r\n" + body + "\r\n0\r\nIdempotency-Key: other-key-0001\r\n\r\n",
		post + "Expect: 100-continue\r\nContent-Length: 62\r\n\r\n" + body,
		post + "Expect: the unexpected\r\nContent-Length: 62\r\n\r\n" + body,
		post + "Content-Length: 100\r\n\r\n" + body,
		post + "Content-Length: 62\r\nContent-Length: 2\r\n\r\n" + body,
		post + "Connection: close, Idempotency-Key\r\nIdempotency-Key: wire-key-0002\r\nContent-Length: 2\r\n\r\n{}",
		post + "Idempotency-Key: wire-key-0002\r\nIdempotency-Key: wire-key-0003\r\nContent-Length: 2\r\n\r\n{}",
		post + "Transfer-Encoding: gzip\r\n\r\n" + body,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/9.9\r\nHost: x\r\n\r\n", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1//namespaces/../stats HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	l := startWire(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 8<<10 {
			t.Skip("headers beyond the limit") // headers beyond the limit take net/http half a second each
		}
		said, in := net.Pipe()
		out, heard := net.Pipe()
		defer heard.Close()
		conn := &wireConn{in: in, out: out}
		l.conns <- conn
		_ = heard.SetReadDeadline(time.Now().Add(30 * time.Second))
		go func() {
			_, _ = said.Write(raw) // a server that has heard enough hangs up
			said.Close()
		}()
		answers, err := io.ReadAll(heard)
		if err != nil {
			t.Fatalf("%v after %q", err, answers)
		}
		// The pipe is closed: nothing touches conn.methods any more.
		methods := conn.methods
		r := bufio.NewReader(strings.NewReader(string(answers)))
		for {
			if _, err := r.Peek(1); err == io.EOF {
				break
			}
			asked := &http.Request{Method: http.MethodGet}
			if len(methods) > 0 {
				asked.Method = methods[0]
			}
			res, err := http.ReadResponse(r, asked)
			if err != nil {
				t.Fatalf("%v in %q", err, answers)
			}
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatalf("%v in %q", err, answers)
			}
			ours := res.Header.Get("X-Correlation-ID") != ""
			ct := res.Header.Get("Content-Type")
			switch {
			case res.StatusCode < 200:
				continue
			case !ours:
				// net/http's own, before any handler: malformed, too long, an
				// expectation, an encoding or a version that it does not know.
				switch res.StatusCode {
				case 400, 417, 431, 501, 505:
				default:
					t.Fatalf("net/http answers %d: %q", res.StatusCode, answers)
				}
				continue
			case len(methods) == 0:
				t.Fatalf("an answer of ours to nothing: %q", answers)
			case res.StatusCode >= 500 && res.StatusCode != 503, res.StatusCode >= 300 && res.StatusCode < 400:
				t.Fatalf("%s: status %d: %q", asked.Method, res.StatusCode, answers)
			case asked.Method == http.MethodHead:
			case res.StatusCode >= 400 && ct != "application/problem+json":
				t.Fatalf("%d as %q: %q", res.StatusCode, ct, answers)
			case strings.Contains(ct, "json") && !jsontext.Value(b).IsValid():
				t.Fatalf("not JSON: %q", b)
			}
			methods = methods[1:]
		}
	})
}
