package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raftTimeout bounds one raft call whose peer is reachable but slow, a disk
// included; a peer that is not reachable ends it sooner (setUserTimeout). raft
// scales it for snapshots.
const raftTimeout = 10 * time.Second

// safeTransport is raft's network transport without its heartbeat fast path,
// which lets a deposed leader store entries under a term that it never led, so
// that replicas diverge (hashicorp/raft#695). All else goes through, pre-vote
// included: raft turns that off without a word when RequestPreVote is hidden.
type safeTransport struct {
	*raft.NetworkTransport
	n *network
}

var (
	_ raft.Transport   = safeTransport{}
	_ raft.WithPreVote = safeTransport{}
	_ raft.WithClose   = safeTransport{}
)

// SetHeartbeatHandler does nothing: heartbeats take the way of all messages.
func (t safeTransport) SetHeartbeatHandler(f func(raft.RPC)) {
	if mutant == "fastpath" {
		t.NetworkTransport.SetHeartbeatHandler(f)
	}
}

// RequestVote implements raft.Transport.
func (t safeTransport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return pastStale(func() error { return t.NetworkTransport.RequestVote(id, target, args, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t safeTransport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return pastStale(func() error { return t.NetworkTransport.RequestPreVote(id, target, args, resp) })
}

// pastStale asks again over another connection when one turns out to be broken.
// The library keeps connections, and those to a peer that has started anew in the
// meantime fail at their first use. raft asks for a vote once, so an election,
// and with it a hand-over, would cost one more election timeout; for entries each
// would count as a failure of the follower. A vote may be asked for twice, and
// the same entries sent: the answer is the same.
func pastStale(ask func() error) (err error) {
	for range keptConnections + 1 {
		err = ask()
		if !isBroken(err) {
			break
		}
	}
	return err
}

// isBroken tells whether err is of a connection that was open and no longer is.
// Errors from within a message are the codec's, which unwraps by Cause alone.
func isBroken(err error) bool {
	var codec interface{ Cause() error }
	if errors.As(err, &codec) {
		err = codec.Cause()
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// keptConnections is how many idle ones to a peer raft's transport keeps.
const keptConnections = 3

func newSafeTransport(layer *streamLayer, hlog hclog.Logger) safeTransport {
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:  hlog.Named("transport"),
		Stream:  layer,
		MaxPool: keptConnections,
		// No pipeline: it wedges after a follower's disk stall (raft#612) and
		// costs latency under load (raft#541).
		MaxRPCsInFlight: 1,
		Timeout:         raftTimeout,
	})
	return safeTransport{trans, layer.n}
}

// streamLayer gives raft its connections: those that the port has sorted out,
// and new ones that begin with our hello.
type streamLayer struct {
	n     *network
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// deliver hands c to raft; false: there is nobody to take it.
func (l *streamLayer) deliver(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

// Accept implements net.Listener.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; the port itself is closed by network.close.
func (l *streamLayer) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr gives the advertised address: raft puts it into every message, and
// followers report it as the leader's. It stays a name, resolved at each dial.
func (l *streamLayer) Addr() net.Addr { return nameAddr(l.n.cfg.PeerAdvertise) }

// Dial implements raft.StreamLayer.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.n.ctx, timeout)
	defer cancel()
	c, err := l.n.dial(ctx, connRaft, string(address))
	if err != nil {
		return nil, &unreachableError{err} // not a typed nil
	}
	_ = c.SetDeadline(time.Time{})
	return c, nil
}

// nameAddr is host:port, as configured.
type nameAddr string

func (nameAddr) Network() string  { return "tcp" }
func (a nameAddr) String() string { return string(a) }
