package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// transport sends requests to upstreams, and sends what may have an effect once.
//
// net/http repeats a request by itself when a connection that it re-used breaks
// before an answer, if it takes the request for repeatable: a GET, or ANY method
// that has an Idempotency-Key header, provided that it can send the body again.
// With the effect done and the answer cut that is a second effect. So whatever
// is not safe goes out without a GetBody, and with a body that net/http knows
// nothing about, an empty one too: it is then never repeatable.
//
// HTTP/1.1 only, and no proxy from the environment: each is a place where
// somebody else would decide to send again.
type transport struct{ base *http.Transport }

func newTransport() *transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &transport{&http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		Protocols:           protocols,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     60 * time.Second,
		DisableCompression:  true, // answers are recorded byte for byte
	}}
}

// closeIdle closes the connections that nothing uses.
func (t *transport) closeIdle() { t.base.CloseIdleConnections() }

// RoundTrip sends a request. One of which surely nothing was written, over a
// connection that had gone stale, is sent once more.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	f := flightOf(req.Context())
	if f == nil {
		return t.unguarded(req)
	}
	for try := 0; ; try++ {
		reused := false
		res, err := t.send(req, f, &reused)
		if err == nil || f.written.Load() || !reused || try == 2 || req.Context().Err() != nil {
			return res, err
		}
	}
}

// send makes one try at a guarded request.
func (t *transport) send(req *http.Request, f *flight, reused *bool) (*http.Response, error) {
	ctx, dog := watch(req.Context(), f.timeout)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { *reused = info.Reused },
		// Called when the head is complete in the connection's buffer: without
		// it no whole request can have left.
		WroteHeaders: func() { f.written.Store(true) },
	})
	out := req.WithContext(ctx)
	frame(out, f.body)
	res, err := t.base.RoundTrip(out)
	if err != nil {
		if errors.Is(context.Cause(ctx), errTimeout) {
			err = errTimeout
		}
		dog.stop()
		return nil, err
	}
	dog.feed()
	res.Body = &fedBody{ReadCloser: res.Body, ctx: ctx, dog: dog}
	return res, nil
}

// frame gives a request its body in a form that cannot be sent twice.
func frame(out *http.Request, body []byte) {
	out.GetBody = nil
	out.Body = &single{*bytes.NewReader(body)}
	out.ContentLength = int64(len(body))
	out.TransferEncoding = nil
	if len(body) == 0 {
		frameEmpty(out)
	}
}

// frameEmpty frames a body that is empty and must not look so. A length of 0
// with a body means an unknown length to net/http, which would be sent in
// chunks, and not every server takes those; identity keeps it from that. The
// Content-Length that POST, PUT and PATCH should have (RFC 9110 section 8.6) is
// then ours to write; by its canonical name net/http would leave it out.
func frameEmpty(out *http.Request) {
	out.TransferEncoding = []string{"identity"}
	switch out.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		out.Header = out.Header.Clone()
		out.Header["content-length"] = []string{"0"}
	}
}

// single is a body that can be read once: net/http knows how to rewind the
// readers of the standard library.
type single struct{ r bytes.Reader }

func (s *single) Read(p []byte) (int, error) { return s.r.Read(p) }
func (s *single) Close() error               { return nil }

// fedBody is an answer's body. As long as some of it comes, the upstream is at
// work; what its reader takes to pass it on is not the upstream's time.
type fedBody struct {
	io.ReadCloser
	ctx context.Context
	dog *watchdog
}

func (b *fedBody) Read(p []byte) (int, error) {
	b.dog.feed()
	n, err := b.ReadCloser.Read(p)
	b.dog.rest()
	if err != nil && err != io.EOF {
		if errors.Is(context.Cause(b.ctx), errTimeout) {
			err = errTimeout
		}
		if f := flightOf(b.ctx); f != nil {
			f.failed = err
		}
	}
	return n, err
}

func (b *fedBody) Close() error {
	b.dog.stop()
	return b.ReadCloser.Close()
}

// unguarded sends a request that passes through. It is streamed, and has its
// caller's context; what is not safe is kept from being repeated all the same.
func (t *transport) unguarded(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return t.base.RoundTrip(req)
	}
	out := req.WithContext(req.Context())
	if out.Body == nil || out.Body == http.NoBody {
		frame(out, nil)
	} else {
		out.GetBody = nil
		out.Body = &streamed{out.Body}
	}
	return t.base.RoundTrip(out)
}

// streamed hides what a body is.
type streamed struct{ body io.ReadCloser }

func (s *streamed) Read(p []byte) (int, error) { return s.body.Read(p) }
func (s *streamed) Close() error               { return s.body.Close() }
