package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/cluster/peerpb"
)

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	n2 := nodes[1].net
	n2.connsMu.Lock()
	n2.limit = 2
	n2.connsMu.Unlock()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", nodes[1].addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	open := func() int {
		n2.connsMu.Lock()
		defer n2.connsMu.Unlock()
		return n2.accepted
	}
	first := dial()
	dial()
	eventually(t, "two connections", func() bool { return open() == 2 })
	third := dial()
	_ = third.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the third is kept: %v", err)
	}
	_ = first.Close()
	eventually(t, "room again", func() bool { return open() == 1 })
	if _, err := nodes[0].net.hello(within(t), nodes[1].addr()); err != nil {
		t.Error(err)
	}
}

// What claims to be longer than allowed is refused by its length alone.
func TestFrameLimit(t *testing.T) {
	t.Parallel()
	for limit, b := range map[int][]byte{maxHello: {0, 1, 0, 1}, maxFrame: {0, 0x80, 0, 1}} {
		if err := readFrame(bytes.NewReader(b), &peerpb.Hello{}, limit); !errors.Is(err, errFrameTooLarge) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// pipeListener accepts what it is given, so that time can be the test's own.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return nameAddr("n2:1") }

// Who does not say hello in time is put out; who did may be silent for long.
func TestHandshakeDeadline(t *testing.T) {
	t.Parallel()
	good := helloBytes(t, connPeer, nil)
	for name, c := range map[string]struct {
		say  []byte
		kept bool
	}{
		"nothing":             {nil, false},
		"first byte":          {[]byte{connPeer}, false},
		"part of a hello":     {good[:len(good)-2], false},
		"hello":               {good, true},
		"hello to raft":       {helloBytes(t, connRaft, nil), true},
		"part of a request":   {append(bytes.Clone(good), 0, 0, 0, 9, 1), false},
		"part of its length":  {append(bytes.Clone(good), 0, 0), true},
		"nothing but a frame": {append(bytes.Clone(good), 0, 0, 0, 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
				cfg, err := (Config{NodeID: "n2", Listener: l, OnHalt: func(*HaltError) {}}).validated()
				if err != nil {
					t.Fatal(err)
				}
				n := openNetwork(cfg, &identityStore{current: twoNodes()}, cfg.Logger, newHclog(cfg.Logger))
				defer n.close()
				n.serve(echo)
				near, far := net.Pipe()
				l.conns <- far
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = io.Copy(io.Discard, near)
				}()
				if _, err := near.Write(c.say); err != nil {
					t.Error(err)
				}
				time.Sleep(max(handshakeTimeout, bodyTimeout) + time.Minute)
				synctest.Wait()
				select {
				case <-ended:
					if c.kept {
						t.Error("it was put out")
					}
				default:
					if !c.kept {
						t.Error("it is still there")
					}
				}
				_ = near.Close()
			})
		})
	}
}

// twoNodes is n2 in a cluster of n1 and n2.
func twoNodes() identity {
	return identity{
		NodeID: "n2", Instance: "instance-n2", Initialised: true,
		Members:   []Member{{"n1", "h1:1"}, {"n2", "h2:1"}},
		Instances: map[string]string{"n1": "instance-n1", "n2": "instance-n2"},
	}
}

func helloBytes(t testing.TB, kind byte, change func(*peerpb.Hello)) []byte {
	h := &peerpb.Hello{NodeId: "n1", Instance: "instance-n1", Initialised: true}
	if change != nil {
		change(h)
	}
	b, err := appendFrame([]byte{kind}, h, maxHello)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Garbage on the port neither panics nor leaves anything behind.
func TestGarbageOnThePort(t *testing.T) { // not parallel: it counts goroutines
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	nodes := newTestNodes(t, 2, true)
	nodes[1].net.serve(echo)
	good := helloBytes(t, connPeer, nil)
	for i, b := range [][]byte{
		{},
		{0},
		{connPeer},
		{connRaft},
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		{22, 3, 1, 2, 0, 1, 0},
		{connPeer, 0xff, 0xff, 0xff, 0xff},
		{connPeer, 0, 0, 0, 3, 0xff, 0xff, 0xff},
		{connRaft, 0, 0, 0, 0},
		good, append(good, 0xff, 0xff, 0xff, 0xff), append(good, 0, 0, 0, 2, 0xff, 0xff), append(good, 0, 0, 1, 0, 1, 2),
		helloBytes(t, connPeer, func(h *peerpb.Hello) { h.Instance = "x" }),
		append(helloBytes(t, connRaft, nil), "garbage to raft"...),
	} {
		c, err := net.Dial("tcp", nodes[1].addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("case %d: the connection is kept", i)
		}
		_ = c.Close()
	}
	eventually(t, "no connection left", func() bool {
		nodes[1].net.connsMu.Lock()
		defer nodes[1].net.connsMu.Unlock()
		return len(nodes[1].net.conns) == 0
	})
	if _, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(1)); err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		n.net.close()
		n.net.close() // twice is no harm
	}
}

// Close ends calls, requests and silent connections, and all goroutines.
func TestNetworkClose(t *testing.T) { // not parallel: it counts goroutines
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	nodes := newTestNodes(t, 2, true)
	inside := make(chan struct{})
	nodes[1].net.serve(func(ctx context.Context, _ string, _ *peerpb.Request) *peerpb.Response {
		close(inside)
		<-ctx.Done()
		return nil
	})
	silent, err := net.Dial("tcp", nodes[1].addr())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	done := make(chan error)
	go func() {
		_, err := nodes[0].net.call(context.Background(), nodes[1].addr(), ask(1))
		done <- err
	}()
	<-inside
	nodes[0].net.close()
	if err := <-done; err == nil || errors.Is(err, errNotSent) {
		t.Errorf("got %v", err)
	}
	nodes[1].net.close()
}

func FuzzPeerConn(f *testing.F) {
	good := helloBytes(f, connPeer, nil)
	request, err := appendFrame(good, proto.Message(&peerpb.Request{Id: 3, Body: ask(1).Body}), maxFrame)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(request)
	f.Add(good[:len(good)-1])
	f.Add(helloBytes(f, connRaft, nil))
	f.Add([]byte("P\x00\x00\x00\x02\xff\xff"))
	f.Add(append(bytes.Clone(good), 0xff, 0xff, 0xff, 0xff))
	id := &identityStore{current: twoNodes()}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := (Config{NodeID: "n2", Listener: l, OnHalt: func(*HaltError) {}}).validated()
		if err != nil {
			t.Fatal(err)
		}
		n := openNetwork(cfg, id, cfg.Logger, newHclog(cfg.Logger))
		n.serve(echo)
		near, far := net.Pipe()
		tracked, err := n.track(far, true)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		n.start(func() {
			defer close(ended)
			n.open(tracked)
		})
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, near)
		}()
		_, _ = near.Write(b)
		_ = near.Close()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%q keeps a goroutine", b)
		}
		<-read
		n.close()
	})
}
