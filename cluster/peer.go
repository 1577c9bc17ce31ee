package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onced/onced/cluster/peerpb"
)

// errNotSent is in every error of a call that has surely not reached the other
// node's handler. Any other error leaves open whether it has (raft-traps 0.4).
var errNotSent = errors.New("not sent")

// quietAfter is how long a connection that answers nothing is trusted.
const quietAfter = 500 * time.Millisecond

// call sends req to the node at addr and waits for its answer, over a connection
// that all calls to addr share. ctx bounds all of it. There is no back-off: a
// call to a node that is down fails as soon as the network says so.
func (n *network) call(ctx context.Context, addr string, req *peerpb.Request) (*peerpb.Response, error) {
	link := n.link(addr)
	for try := 0; ; try++ {
		pc, err := link.get(ctx)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w: %s: %w", errNotSent, addr, err)
		}
		resp, err := pc.roundTrip(ctx, req)
		if err == nil {
			return resp, nil
		}
		if try == 0 && errors.Is(err, errNotSent) && ctx.Err() == nil && n.ctx.Err() == nil {
			continue // the kept connection has just ended
		}
		return nil, fmt.Errorf("cluster: %s: %w", addr, err)
	}
}

// hello asks the node at addr who it is, over a connection of its own.
func (n *network) hello(ctx context.Context, addr string) (*peerpb.HelloReply, error) {
	c, reply, err := n.dialPeer(ctx, addr)
	if err != nil {
		return nil, err
	}
	_ = c.Close()
	return reply, nil
}

// dialPeer opens a P connection. The reply is not judged.
func (n *network) dialPeer(ctx context.Context, addr string) (*trackedConn, *peerpb.HelloReply, error) {
	c, err := n.dial(ctx, connPeer, addr)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	reply := &peerpb.HelloReply{}
	if err := readFrame(c, reply, maxFrame); err != nil {
		_ = c.Close()
		return nil, nil, fmt.Errorf("no reply to the hello: %w", err)
	}
	return c, reply, nil
}

func (n *network) link(addr string) *peerLink {
	n.linksMu.Lock()
	defer n.linksMu.Unlock()
	l := n.links[addr]
	if l == nil {
		l = &peerLink{n: n, addr: addr}
		n.links[addr] = l
	}
	return l
}

// peerLink is the kept connection to one address.
type peerLink struct {
	n    *network
	addr string

	linkMu  sync.Mutex // guards conn and dialing
	conn    *peerConn
	dialing *dialAttempt
}

// dialAttempt is one dial that all who wait for it share.
type dialAttempt struct {
	done chan struct{} // closed when conn or err is there
	conn *peerConn
	err  error
}

func (l *peerLink) get(ctx context.Context) (*peerConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.linkMu.Lock()
	if c := l.conn; c != nil && !c.isGone() {
		l.linkMu.Unlock()
		return c, nil
	}
	a := l.dialing
	if a == nil {
		a = &dialAttempt{done: make(chan struct{})}
		if !l.n.start(func() { l.dial(a) }) {
			l.linkMu.Unlock()
			return nil, errors.New("this node is closing")
		}
		l.dialing = a
	}
	l.linkMu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *peerLink) dial(a *dialAttempt) {
	ctx, cancel := context.WithTimeout(l.n.ctx, dialTimeout)
	defer cancel()
	c, reply, err := l.n.dialPeer(ctx, l.addr)
	if err == nil {
		self := l.n.id.get()
		if r := checkReply(self, self.memberAt(l.addr), reply); r != nil {
			_ = c.Close()
			err = errors.New(r.sentence)
		}
	}
	if err == nil {
		_ = c.SetDeadline(time.Time{})
		a.conn = newPeerConn(l, c)
	}
	l.linkMu.Lock()
	defer l.linkMu.Unlock()
	a.err, l.conn, l.dialing = err, a.conn, nil
	close(a.done)
}

// retire makes later calls dial anew; calls under way on pc may still end well.
func (l *peerLink) retire(pc *peerConn) {
	l.linkMu.Lock()
	defer l.linkMu.Unlock()
	if l.conn == pc {
		l.conn = nil
	}
}

// peerConn is one connection that carries many calls, told apart by id.
type peerConn struct {
	link *peerLink
	conn *trackedConn
	out  chan []byte // to the writer; who takes a frame has it written or fails

	lastID   atomic.Uint64
	lastRead atomic.Int64 // when something came, in ns since born
	born     time.Time

	gone     chan struct{} // closed when the connection has ended
	goneOnce sync.Once
	goneErr  error // set before gone is closed

	pendingMu sync.Mutex // guards the two below
	pending   map[uint64]chan *peerpb.Response
	retired   bool
}

func newPeerConn(l *peerLink, c *trackedConn) *peerConn {
	p := &peerConn{
		link: l, conn: c, out: make(chan []byte), born: time.Now(),
		gone: make(chan struct{}), pending: map[uint64]chan *peerpb.Response{},
	}
	if !l.n.start(p.read) || !l.n.start(p.write) {
		p.end(errors.New("this node is closing"))
	}
	return p
}

func (p *peerConn) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// end closes the connection and fails all calls that wait on it.
func (p *peerConn) end(err error) {
	p.goneOnce.Do(func() {
		p.goneErr = err
		close(p.gone)
		_ = p.conn.Close()
	})
}

func (p *peerConn) roundTrip(ctx context.Context, req *peerpb.Request) (*peerpb.Response, error) {
	id := p.lastID.Add(1)
	frame, err := appendFrame(nil, &peerpb.Request{Id: id, Body: req.GetBody()}, maxFrame)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	answer := make(chan *peerpb.Response, 1)
	p.pendingMu.Lock()
	p.pending[id] = answer
	p.pendingMu.Unlock()
	defer p.forget(id)
	sent := time.Since(p.born)
	select {
	case p.out <- frame:
	case <-p.gone:
		return nil, fmt.Errorf("%w: %w", errNotSent, p.goneErr)
	case <-ctx.Done():
		p.suspect(sent)
		return nil, fmt.Errorf("%w: %w", errNotSent, ctx.Err())
	}
	select {
	case resp := <-answer:
		return resp, nil
	case <-p.gone:
		select {
		case resp := <-answer: // it was the last thing that came
			return resp, nil
		default:
			return nil, fmt.Errorf("the connection ended before an answer: %w", p.goneErr)
		}
	case <-ctx.Done():
		p.suspect(sent)
		return nil, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// suspect retires a connection on which nothing has come since a call that was
// given up: it may be stuck, and the other node reachable all the same.
func (p *peerConn) suspect(sent time.Duration) {
	if time.Duration(p.lastRead.Load()) >= sent || time.Since(p.born)-sent < quietAfter {
		return
	}
	p.link.retire(p)
	p.pendingMu.Lock()
	p.retired = true
	p.pendingMu.Unlock()
}

func (p *peerConn) forget(id uint64) {
	p.pendingMu.Lock()
	delete(p.pending, id)
	over := p.retired && len(p.pending) == 0
	p.pendingMu.Unlock()
	if over {
		p.end(errors.New("it was silent for too long"))
	}
}

func (p *peerConn) read() {
	r := bufio.NewReader(p.conn)
	for {
		resp := &peerpb.Response{}
		if err := readFrame(r, resp, maxFrame); err != nil {
			p.end(err)
			return
		}
		p.lastRead.Store(int64(time.Since(p.born)))
		p.pendingMu.Lock()
		answer := p.pending[resp.Id]
		delete(p.pending, resp.Id) // a second answer has nobody to go to
		p.pendingMu.Unlock()
		if answer != nil {
			answer <- resp
		}
	}
}

func (p *peerConn) write() {
	w := bufio.NewWriterSize(p.conn, 64<<10)
	for {
		select {
		case frame := <-p.out:
			if err := p.writeOut(w, frame); err != nil {
				p.end(err)
				return
			}
		case <-p.gone:
			return
		}
	}
}

// writeOut writes frame and what else is waiting.
func (p *peerConn) writeOut(w *bufio.Writer, frame []byte) error {
	_ = p.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	for {
		if _, err := w.Write(frame); err != nil {
			return err
		}
		select {
		case frame = <-p.out:
		default:
			return w.Flush()
		}
	}
}
