package cluster

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"os"
	"sync"
	"time"
)

// simNet is a network in memory, for a testing/synctest bubble: links can be
// cut one way or both, with or without a sign, and each message takes a while.
type simNet struct {
	rng *rand.Rand

	mu        sync.Mutex // guards rng and all below
	listeners map[string]*simListener
	cut       map[simLink]bool // from -> to: nothing arrives
	conns     map[*simConn]bool
	delay     time.Duration // at most, per message
	dropped   int           // messages that a cut swallowed
}

type simLink struct{ from, to string }

func newSimNet(seed int64) *simNet {
	return &simNet{
		rng: rand.New(rand.NewSource(seed)), listeners: map[string]*simListener{},
		cut: map[simLink]bool{}, conns: map[*simConn]bool{}, delay: 2 * time.Millisecond,
	}
}

// setCut cuts or heals what goes from one node to another.
func (n *simNet) setCut(from, to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[simLink{from, to}] = cut
}

// reset breaks all connections between two nodes.
func (n *simNet) reset(a, b string) {
	n.mu.Lock()
	var broken []*simConn
	for c := range n.conns {
		if c.from == a && c.to == b || c.from == b && c.to == a {
			broken = append(broken, c)
		}
	}
	n.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
}

func (n *simNet) isCut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[simLink{from, to}]
}

func (n *simNet) someDelay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Int63n(int64(n.delay) + 1))
}

type simListener struct {
	net  *simNet
	addr string
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

func (n *simNet) listen(addr string) *simListener {
	l := &simListener{net: n, addr: addr, in: make(chan net.Conn, 64), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

func (l *simListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *simListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.listeners[l.addr] == l {
			delete(l.net.listeners, l.addr)
		}
	})
	return nil
}

func (l *simListener) Addr() net.Addr { return nameAddr(l.addr) }

// dialFrom gives the dialler of one node.
func (n *simNet) dialFrom(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		select {
		case <-time.After(n.someDelay()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if n.isCut(from, to) || n.isCut(to, from) {
			<-ctx.Done() // SYN or SYN-ACK lost
			return nil, ctx.Err()
		}
		n.mu.Lock()
		l := n.listeners[to]
		n.mu.Unlock()
		if l == nil {
			return nil, errors.New("connection refused")
		}
		a, b := n.pair(from, to)
		select {
		case l.in <- b:
			return a, nil
		case <-l.done:
		default:
		}
		_ = a.Close()
		_ = b.Close()
		return nil, errors.New("connection refused")
	}
}

// simConn is one end of a connection. What is written travels through a pump
// that delays it, or drops it while the link is cut.
type simConn struct {
	net      *simNet
	from, to string
	peer     *simConn
	out      chan []byte // to the pump
	in       chan []byte // from the other's pump
	done     chan struct{}
	once     sync.Once

	mu       sync.Mutex
	rest     []byte
	deadline *simDeadline
	writeBy  *simDeadline
}

func (n *simNet) pair(from, to string) (*simConn, *simConn) {
	mk := func(from, to string) *simConn {
		return &simConn{
			net: n, from: from, to: to, out: make(chan []byte, 256), in: make(chan []byte, 256),
			done: make(chan struct{}), deadline: newSimDeadline(), writeBy: newSimDeadline(),
		}
	}
	a, b := mk(from, to), mk(to, from)
	a.peer, b.peer = b, a
	n.mu.Lock()
	n.conns[a], n.conns[b] = true, true
	n.mu.Unlock()
	go a.pump()
	go b.pump()
	return a, b
}

func (c *simConn) pump() {
	for {
		select {
		case b := <-c.out:
			time.Sleep(c.net.someDelay())
			if c.net.isCut(c.from, c.to) {
				// A stream has no holes: what is lost breaks it, later.
				c.net.mu.Lock()
				c.net.dropped++
				c.net.mu.Unlock()
				for c.net.isCut(c.from, c.to) {
					select {
					case <-time.After(50 * time.Millisecond): // sent again by TCP
					case <-c.done:
						return
					}
				}
			}
			select {
			case c.peer.in <- b:
			case <-c.peer.done:
				return
			case <-c.done:
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *simConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if len(c.rest) > 0 {
		n := copy(b, c.rest)
		c.rest = c.rest[n:]
		c.mu.Unlock()
		return n, nil
	}
	c.mu.Unlock()
	select {
	case got := <-c.in:
		n := copy(b, got)
		c.mu.Lock()
		c.rest = got[n:]
		c.mu.Unlock()
		return n, nil
	case <-c.done:
		return 0, net.ErrClosed
	case <-c.peer.done:
		select {
		case got := <-c.in:
			n := copy(b, got)
			c.mu.Lock()
			c.rest = got[n:]
			c.mu.Unlock()
			return n, nil
		default:
		}
		return 0, io.EOF
	case <-c.deadline.passed():
		return 0, os.ErrDeadlineExceeded
	}
}

func (c *simConn) Write(b []byte) (int, error) {
	select {
	case c.out <- append([]byte(nil), b...):
		return len(b), nil
	case <-c.done:
		return 0, net.ErrClosed
	case <-c.peer.done:
		return 0, io.ErrClosedPipe
	case <-c.writeBy.passed():
		return 0, os.ErrDeadlineExceeded
	}
}

func (c *simConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.net.mu.Lock()
		defer c.net.mu.Unlock()
		delete(c.net.conns, c)
	})
	return nil
}

func (c *simConn) LocalAddr() net.Addr  { return nameAddr(c.from) }
func (c *simConn) RemoteAddr() net.Addr { return nameAddr(c.to) }

func (c *simConn) SetDeadline(t time.Time) error {
	c.deadline.set(t)
	c.writeBy.set(t)
	return nil
}
func (c *simConn) SetReadDeadline(t time.Time) error  { c.deadline.set(t); return nil }
func (c *simConn) SetWriteDeadline(t time.Time) error { c.writeBy.set(t); return nil }

// simDeadline is a channel that is closed when a deadline passes.
type simDeadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{}
}

func newSimDeadline() *simDeadline { return &simDeadline{ch: make(chan struct{})} }

func (d *simDeadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ch
}

func (d *simDeadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	select {
	case <-d.ch:
		d.ch = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	ch := d.ch
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.ch == ch {
				select {
				case <-ch:
				default:
					close(ch)
				}
			}
		})
		return
	}
	close(ch)
}
