package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/onced/onced/cluster/peerpb"
)

const (
	handshakeTimeout = 5 * time.Second // first byte and hello of an accepted connection
	dialTimeout      = time.Second     // dial and hello of an own connection
	writeTimeout     = 5 * time.Second // one message
	maxAccepted      = 1024            // connections from others, all kinds
	maxServed        = 1024            // requests under way, all connections
)

// peerHandler answers a request of the node with the id from. ctx ends when the
// connection does: the answer would reach nobody.
type peerHandler func(ctx context.Context, from string, req *peerpb.Request) *peerpb.Response

// network is the one inter-node port of a node: raft and peer connections, both
// ways. Deadlines on connections are of the monotonic clock.
type network struct {
	cfg Config
	id  *identityStore
	log *slog.Logger

	layer   *streamLayer
	trans   safeTransport
	handler atomic.Pointer[peerHandler]
	leadsIn atomic.Pointer[func(term uint64) bool] // whether raft here leads in term
	stalls  *atomic.Int32                          // writes that the disk does not answer; nil: none
	served  chan struct{}                          // one token a request under way
	news    *commitNews

	ctx    context.Context // ends when the network closes
	cancel context.CancelFunc
	tasks  sync.WaitGroup // grows only through start

	connsMu  sync.Mutex // guards the four below
	conns    map[*trackedConn]struct{}
	accepted int
	limit    int
	closed   bool

	linksMu sync.Mutex // guards links
	links   map[string]*peerLink

	refusedMu sync.Mutex // guards the two below
	refused   string
	refusedAt time.Time
}

// openNetwork starts to accept on cfg.Listener, and owns it from then on. Until
// serve is called requests are refused as NOT_READY.
func openNetwork(cfg Config, id *identityStore, logger *slog.Logger, hlog hclog.Logger) *network {
	n := &network{
		cfg: cfg, id: id, log: logger,
		served: make(chan struct{}, maxServed),
		conns:  map[*trackedConn]struct{}{}, limit: maxAccepted,
		links: map[string]*peerLink{},
		news:  newCommitNews(),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.layer = &streamLayer{n: n, conns: make(chan net.Conn), done: make(chan struct{})}
	n.trans = newSafeTransport(n.layer, hlog)
	n.start(n.accept)
	return n
}

// raftTransport gives what raft speaks through.
func (n *network) raftTransport() raft.Transport { return n.trans }

// serve sets who answers requests from now on.
func (n *network) serve(h func(ctx context.Context, from string, req *peerpb.Request) *peerpb.Response) {
	handler := peerHandler(h)
	n.handler.Store(&handler)
}

// close ends all connections, calls and requests and waits for them. It is to be
// called after raft.Shutdown and before its future is waited for: raft waits for
// its own calls, and they wait for the other side (R29, R44).
func (n *network) close() {
	n.connsMu.Lock()
	conns := make([]*trackedConn, 0, len(n.conns))
	for c := range n.conns {
		conns = append(conns, c)
	}
	n.closed = true
	n.connsMu.Unlock()
	n.cancel()
	_ = n.cfg.Listener.Close()
	n.trans.CloseStreams()
	_ = n.trans.Close()
	for _, c := range conns {
		_ = c.Close()
	}
	n.tasks.Wait()
}

// start runs f on a goroutine that close waits for; false: it is closed already.
func (n *network) start(f func()) bool {
	n.connsMu.Lock()
	defer n.connsMu.Unlock()
	if n.closed {
		return false
	}
	n.tasks.Add(1)
	go func() {
		defer n.tasks.Done()
		f()
	}()
	return true
}

func (n *network) accept() {
	for {
		c, err := n.cfg.Listener.Accept()
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			// Out of file descriptors, say: the next may work.
			n.log.Error("inter-node port does not accept", "error", err)
			if sleep(n.ctx, 50*time.Millisecond) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		setUserTimeout(c)
		t, err := n.track(c, true)
		if err != nil {
			n.sayRefused("connection", c.RemoteAddr().String(), err.Error())
			continue
		}
		if !n.start(func() { n.open(t) }) {
			_ = t.Close()
		}
	}
}

// open takes an accepted connection through its hello and to its use.
func (n *network) open(c *trackedConn) {
	handedOn := false
	defer func() {
		if !handedOn {
			_ = c.Close()
		}
	}()
	remote := c.RemoteAddr().String()
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	kind, hello, err := readHello(c)
	if err != nil {
		n.log.Debug("inter-node connection dropped", "remote", remote, "error", err)
		return
	}
	self := n.id.get()
	if kind == connRaft {
		if r := checkRaftHello(self, hello); r != nil {
			n.sayRefused("raft connection", remote, r.sentence)
			return
		}
		_ = c.SetDeadline(time.Time{})
		handedOn = n.layer.deliver(c)
		return
	}
	reply := answerHello(self, hello, n.cfg.Wall(), n.cfg.Version)
	b, err := appendFrame(nil, reply, maxFrame)
	if err == nil {
		_, err = c.Write(b)
	}
	if err != nil {
		n.log.Debug("inter-node connection dropped", "remote", remote, "error", err)
		return
	}
	if reply.Refused != "" {
		n.sayRefused("peer connection", remote, reply.Refused)
		return
	}
	_ = c.SetDeadline(time.Time{})
	n.servePeer(c, hello.NodeId)
}

// sayRefused logs a refusal, but not the same one over and over: who is refused
// tries again.
func (n *network) sayRefused(what, remote, why string) {
	n.refusedMu.Lock()
	defer n.refusedMu.Unlock()
	if now := time.Now(); n.refused != why || now.Sub(n.refusedAt) > 10*time.Second {
		n.refused, n.refusedAt = why, now
		n.log.Warn("inter-node "+what+" refused", "remote", remote, "reason", why)
	}
}

// trackedConn is a connection that close ends.
type trackedConn struct {
	net.Conn
	n        *network
	accepted bool
	once     sync.Once
}

// track takes c into the care of close. On an error c is closed.
func (n *network) track(c net.Conn, accepted bool) (*trackedConn, error) {
	n.connsMu.Lock()
	defer n.connsMu.Unlock()
	if n.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	if accepted {
		if n.accepted >= n.limit {
			_ = c.Close()
			return nil, errors.New("too many connections")
		}
		n.accepted++
	}
	t := &trackedConn{Conn: c, n: n, accepted: accepted}
	n.conns[t] = struct{}{}
	return t, nil
}

// Close implements net.Conn.
func (t *trackedConn) Close() error {
	t.once.Do(func() {
		t.n.connsMu.Lock()
		defer t.n.connsMu.Unlock()
		delete(t.n.conns, t)
		if t.accepted {
			t.n.accepted--
		}
	})
	return t.Conn.Close()
}

// dial opens a connection of a kind to addr and says hello. The connection keeps
// the deadline of ctx, which is at most dialTimeout away.
func (n *network) dial(ctx context.Context, kind byte, addr string) (*trackedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	raw, err := n.dialAddr(ctx, addr)
	if err != nil {
		return nil, err
	}
	setUserTimeout(raw)
	c, err := n.track(raw, false)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	b, err := appendFrame([]byte{kind}, newHello(n.id.get(), addr, n.cfg.Version), maxHello)
	if err == nil {
		_, err = c.Write(b)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (n *network) dialAddr(ctx context.Context, addr string) (net.Conn, error) {
	if n.cfg.dial != nil {
		return n.cfg.dial(ctx, addr)
	}
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}
	return d.DialContext(ctx, "tcp", addr)
}
