package plainhttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	firstRoom   = 4 << 10  // for what is read of a connection
	largestRoom = 32 << 10 // of a connection that is idle
	// patience is how long the rest of a request may take. Who needs longer is
	// left to net/http, which has limits for that.
	patience = time.Second
)

// conn is a connection that has sent nothing but plain requests.
type conn struct {
	server *Server
	net    net.Conn
	cancel context.CancelFunc // ends the calls of this connection
	req    request
	resp   response
	in     []byte // read and not yet served
	reads  deadline
	writes deadline
	used   bool // a request was served
	posted bool // and the last one was a POST, behind which an empty line is let pass, as net/http does

	mu      sync.Mutex // guards all below
	calling bool       // a call is under way
	since   time.Time
	ended   bool    // closed while it was idle
	watcher *hangUp // of the call under way; nil: nobody watches
}

func newConn(s *Server, base context.Context, c net.Conn) *conn {
	x := &conn{server: s, net: c, in: make([]byte, 0, firstRoom)}
	ctx, cancel := context.WithCancel(context.WithValue(base, http.LocalAddrContextKey, c.LocalAddr()))
	x.cancel = cancel
	r := http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: c.RemoteAddr().String(), Header: http.Header{}}
	x.req.Request = *r.WithContext(ctx)
	x.resp.header = http.Header{}
	x.reads.set, x.writes.set = c.SetReadDeadline, c.SetWriteDeadline
	return x
}

// serve answers requests until the connection ends or is handed over.
func (c *conn) serve() {
	defer c.server.drop(c)
	handed := false
	defer func() {
		c.cancel()
		if !handed {
			_ = c.net.Close()
		}
	}()
	for {
		what, n := c.next()
		switch {
		case what == foreign:
			_ = c.net.SetReadDeadline(time.Time{})
			handed = true
			c.server.others.give(c.net, c.in)
			return
		case what == partial || !c.begin():
			return
		}
		c.used = true
		ok := c.call()
		more := c.end()
		c.in = append(c.in[:copy(c.in, c.in[n:])], more...)
		c.posted = c.req.Method == http.MethodPost
		if !ok {
			return
		}
	}
}

// next reads until a request is there whole; partial: the connection is over.
func (c *conn) next() (verdict, int) {
	c.skipEmptyLine()
	if len(c.in) == 0 && cap(c.in) > largestRoom {
		c.in = make([]byte, 0, firstRoom)
	}
	if len(c.in) > 0 {
		if what, n := c.req.parse(c.in); what != partial {
			return what, n
		}
	}
	if len(c.in) == 0 {
		wait := c.server.http.IdleTimeout
		if !c.used {
			wait = c.server.http.ReadHeaderTimeout
		}
		c.reads.about(wait)
	}
	for begun := false; ; {
		if len(c.in) > 0 && !begun { // one deadline, however many reads
			begun = true
			c.reads.exactly(patience)
		}
		if len(c.in) == cap(c.in) {
			c.in = append(make([]byte, 0, 2*cap(c.in)), c.in...)
		}
		n, err := c.net.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		if n > 0 && !c.skipEmptyLine() {
			if what, n := c.req.parse(c.in); what != partial {
				return what, n
			}
		}
		switch {
		case err == nil:
		case len(c.in) > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			return foreign, 0
		case len(c.in) > 0 && !c.isEnded():
			return foreign, 0 // net/http answers half a request, or closes
		default:
			return partial, 0
		}
	}
}

// skipEmptyLine takes away one CRLF behind a POST; true: half of one is there, or
// nothing else.
func (c *conn) skipEmptyLine() bool {
	if !c.posted || len(c.in) == 0 {
		return false
	}
	if string(c.in) == "\r" {
		return true
	}
	c.posted = false
	if string(c.in[:min(2, len(c.in))]) == "\r\n" {
		c.in = c.in[:copy(c.in, c.in[2:])]
	}
	return len(c.in) == 0
}

// begin marks a call as under way; false: the connection was ended just before.
func (c *conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calling, c.since = !c.ended, time.Now()
	return c.calling
}

// end ends the watch over a call, if there is one, and gives what it has read.
func (c *conn) end() []byte {
	c.mu.Lock()
	w := c.watcher
	c.calling, c.watcher = false, nil
	c.mu.Unlock()
	if w == nil {
		return nil
	}
	c.reads.at = time.Time{} // the watch has set its own
	return w.stop()
}

// endIdle closes the connection unless a call is under way.
func (c *conn) endIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.calling {
		c.ended = true
		_ = c.net.Close()
	}
}

func (c *conn) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *conn) watchIfLong(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calling && c.watcher == nil && now.Sub(c.since) >= watchEvery {
		c.watcher = watchFor(c.net, c.cancel)
	}
}

// call has the handler answer the request, and sends that; false: the connection
// ends here.
func (c *conn) call() (ok bool) {
	c.resp.reset()
	if !c.handle() {
		return false
	}
	last := c.resp.closes() || c.server.closing.Load()
	out := c.resp.finish(last)
	if t := c.server.http.WriteTimeout; t > 0 {
		c.writes.about(t)
	}
	_, err := c.net.Write(out)
	if cap(c.resp.out) > largestRoom {
		c.resp.out = nil
	}
	if cap(c.resp.body) > largestRoom {
		c.resp.body = nil
	}
	return err == nil && !last && c.req.Context().Err() == nil
}

// handle calls the handler; false: it panicked, which ends the connection alone.
func (c *conn) handle() (ok bool) {
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
			c.server.logf("plainhttp: panic serving %s: %v\n%s", c.req.RemoteAddr, cause, debug.Stack())
		}
	}()
	c.server.http.Handler.ServeHTTP(&c.resp, &c.req.Request)
	return true
}

// deadline is when reads, or writes, of a connection end. To move a timer for
// each request costs as much as to parse one, so it is moved in larger steps.
type deadline struct {
	set func(time.Time) error
	at  time.Time // as set; zero: not known
}

// about lets operations from now on take t, or up to an eighth less. 0 is for ever.
func (d *deadline) about(t time.Duration) {
	if t <= 0 {
		d.at = time.Time{}
		_ = d.set(d.at)
		return
	}
	at := time.Now().Add(t)
	if moved := at.Sub(d.at); moved < 0 || moved > t/8 {
		d.at = at
		_ = d.set(at)
	}
}

func (d *deadline) exactly(t time.Duration) {
	d.at = time.Time{} // nothing else may be content with it
	_ = d.set(time.Now().Add(t))
}

// hangUp reads from a connection during a call, to notice when the caller goes
// away.
type hangUp struct {
	net  net.Conn
	done chan struct{}
	got  [1]byte // of the next request
	n    int
}

func watchFor(c net.Conn, gone context.CancelFunc) *hangUp {
	w := &hangUp{net: c, done: make(chan struct{})}
	_ = c.SetReadDeadline(time.Time{})
	go func() {
		defer close(w.done)
		var err error
		if w.n, err = c.Read(w.got[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			gone()
		}
	}()
	return w
}

// stop ends the watch and gives what it has read.
func (w *hangUp) stop() []byte {
	_ = w.net.SetReadDeadline(time.Unix(1, 0)) // long past
	<-w.done
	return w.got[:w.n]
}
