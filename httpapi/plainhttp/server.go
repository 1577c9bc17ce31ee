// Package plainhttp serves HTTP/1.1 to programs. A program sends the same plain
// request over and over on a connection that stays: plainhttp reads such requests
// into memory that it uses again, calls the handler, and answers in one write.
// For net/http that is more work than the rest of a call together.
//
// It is no second HTTP server. A connection that sends anything that is not
// plain (see request.parse: methods, a query, escapes, chunks, upgrades, and
// whatever is malformed) goes to net/http with all that was read of it, and
// stays there. So there is one reading of each request, and one place that
// refuses.
package plainhttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves the plain connections of a listener itself and has an
// http.Server, whose handler, limits and context it takes, serve the others.
type Server struct {
	http *http.Server

	closing atomic.Bool // set with mu held; each answer asks

	mu       sync.Mutex // guards all below
	conns    map[*conn]bool
	listener net.Listener
	others   *handover
	drained  chan struct{} // closed once closing and no connection is left
}

// New gives a server that has not been started. What s is set to must not change
// any more; s itself is started and stopped by the Server.
func New(s *http.Server) *Server {
	return &Server{http: s, conns: map[*conn]bool{}, drained: make(chan struct{})}
}

// Serve accepts connections until the server is shut down or closed, and gives
// http.ErrServerClosed then. It may be called once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		_ = l.Close()
		return http.ErrServerClosed
	}
	s.listener, s.others = l, newHandover(l.Addr())
	s.mu.Unlock()
	base := context.Background()
	if s.http.BaseContext != nil {
		base = s.http.BaseContext(l)
	}
	base = context.WithValue(base, http.ServerContextKey, s.http)
	go func() { _ = s.http.Serve(s.others) }()
	go s.watch()
	pause := time.Duration(0)
	for {
		c, err := l.Accept()
		if err != nil {
			if s.closing.Load() {
				return http.ErrServerClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			pause = min(max(5*time.Millisecond, 2*pause), time.Second)
			s.logf("plainhttp: accept: %v; again in %v", err, pause) // no descriptors left, mostly
			time.Sleep(pause)
			continue
		}
		pause = 0
		x := newConn(s, base, c)
		if !s.keep(x) {
			_ = c.Close()
			continue
		}
		go x.serve()
	}
}

// Shutdown stops accepting, ends idle connections, and waits until the calls
// under way are answered, or for ctx, whose error it gives then.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.close() {
		c.endIdle()
	}
	err := s.http.Shutdown(ctx)
	select {
	case <-s.drained:
	case <-ctx.Done():
		return ctx.Err()
	}
	return err
}

// Close ends everything at once.
func (s *Server) Close() error {
	for _, c := range s.close() {
		_ = c.net.Close()
	}
	return s.http.Close()
}

// close begins the end and gives the connections that are left.
func (s *Server) close() (left []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing.Swap(true) {
		if s.listener != nil {
			_ = s.listener.Close()
			_ = s.others.Close()
		}
		if len(s.conns) == 0 {
			close(s.drained)
		}
	}
	for c := range s.conns {
		left = append(left, c)
	}
	return left
}

func (s *Server) keep(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns[c] = true
	return true
}

func (s *Server) drop(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.closing.Load() && len(s.conns) == 0 {
		close(s.drained)
	}
}

// watchEvery is how long a call goes on, at least and up to twice that, before
// somebody looks whether its caller is still there.
const watchEvery = 25 * time.Millisecond

// watch has the callers of long calls watched. Most calls are over sooner, and
// cost nothing for it.
func (s *Server) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	var list []*conn
	for {
		select {
		case <-t.C:
		case <-s.drained: // calls are watched to the last
			return
		}
		s.mu.Lock()
		list = list[:0]
		for c := range s.conns {
			list = append(list, c)
		}
		s.mu.Unlock()
		now := time.Now()
		for _, c := range list {
			c.watchIfLong(now)
		}
		clear(list)
	}
}

func (s *Server) logf(format string, args ...any) {
	if s.http.ErrorLog != nil {
		s.http.ErrorLog.Printf(format, args...)
	}
}
