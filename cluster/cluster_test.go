package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// A future that raft never answers keeps the goroutine that waits for it
// (hashicorp/raft#498); nothing else may stay.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/onced/onced/cluster.await.func1"))
}

// trio is a cluster of nodes in this process, over real TCP on loopback.
type trio struct {
	t       testing.TB
	dir     string // empty: in memory
	members []Member
	nodes   []*Node // nil: stopped
	mod     func(*Config)
	halts   chan *HaltError
}

// newTrio opens size nodes and waits until all are ready.
func newTrio(t testing.TB, size int, dir string, mod func(*Config)) *trio {
	t.Helper()
	c := &trio{t: t, dir: dir, nodes: make([]*Node, size), mod: mod, halts: make(chan *HaltError, 16)}
	var listeners []net.Listener
	for i := range size {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		c.members = append(c.members, Member{fmt.Sprintf("n%d", i+1), l.Addr().String()})
	}
	t.Cleanup(c.close)
	var opened sync.WaitGroup
	for i := range size {
		opened.Add(1)
		go func() {
			defer opened.Done()
			if err := c.openOn(i, listeners[i]); err != nil {
				t.Errorf("open n%d: %v", i+1, err)
			}
		}()
	}
	opened.Wait()
	if t.Failed() {
		t.FailNow()
	}
	c.waitReady()
	return c
}

func (c *trio) openOn(i int, l net.Listener) error {
	cfg := Config{
		NodeID: c.members[i].ID, Members: c.members, Listener: l, Multiplier: 1,
		HTTPAdvertise: "http://" + c.members[i].ID + ".test", Version: "test",
		OnHalt: func(e *HaltError) { c.halts <- e },
	}
	if c.dir != "" {
		cfg.DataDir, cfg.LogStore, cfg.walSegment = filepath.Join(c.dir, cfg.NodeID), logStoreUnderTest(), 1<<20
	}
	if c.mod != nil {
		c.mod(&cfg)
	}
	n, err := Open(context.Background(), cfg)
	if err == nil {
		c.nodes[i] = n
	} else {
		l.Close()
	}
	return err
}

// start opens a stopped node on its old address.
func (c *trio) start(i int) error {
	c.t.Helper()
	var l net.Listener
	c.eventually("the old port is free", func() (err error) {
		l, err = net.Listen("tcp", c.members[i].Address)
		return err
	})
	return c.openOn(i, l)
}

func (c *trio) stop(i int) {
	c.t.Helper()
	n := c.nodes[i]
	c.nodes[i] = nil
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		c.t.Errorf("close %s: %v", n.ID(), err)
	}
}

// crash stops a node without handing over leadership.
func (c *trio) crash(i int) {
	c.t.Helper()
	n := c.nodes[i]
	c.nodes[i] = nil
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Close(ctx); err != nil {
		c.t.Errorf("crash %s: %v", n.ID(), err)
	}
}

func (c *trio) close() {
	for i, n := range c.nodes {
		if n != nil {
			c.crash(i)
		}
	}
}

func (c *trio) up() (up []*Node) {
	for _, n := range c.nodes {
		if n != nil {
			up = append(up, n)
		}
	}
	return up
}

func (c *trio) waitReady() {
	c.t.Helper()
	c.eventually("every node is ready", func() error {
		for _, n := range c.up() {
			for _, k := range n.Ready() {
				if !k.OK {
					return fmt.Errorf("%s: %s: %s", n.ID(), k.Name, k.Detail)
				}
			}
		}
		return nil
	})
}

// leader gives the index of the node that leads.
func (c *trio) leader() (leader int) {
	c.t.Helper()
	c.eventually("a leader is ready", func() error {
		for i, n := range c.nodes {
			if n != nil && n.leads() == nil {
				leader = i
				return nil
			}
		}
		return errNoLeader
	})
	return leader
}

// follower gives the index of a running node that does not lead.
func (c *trio) follower() int {
	c.t.Helper()
	l := c.leader()
	for i, n := range c.nodes {
		if n != nil && i != l {
			return i
		}
	}
	c.t.Fatal("no follower is running")
	return 0
}

func (c *trio) eventually(what string, f func() error) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("not in time: %s: %v", what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// agree waits until all running nodes have applied the same and compares their
// state hashes.
func (c *trio) agree() {
	c.t.Helper()
	c.eventually("all nodes have applied the same", func() error {
		var index, hash uint64
		for i, n := range c.up() {
			var x, h uint64
			n.fsm.read(func(m *fsm.Machine) { x, h = m.Index(), m.StateHash() })
			if i == 0 {
				index, hash = x, h
			}
			if x != index {
				return fmt.Errorf("applied %d and %d", index, x)
			}
			if h != hash {
				c.t.Fatalf("diverged at index %d: %016x and %016x", index, hash, h)
			}
		}
		return nil
	})
}

var attempts atomic.Uint64

func reserveCmd(key string) *fsm.Command {
	return &fsm.Command{
		Op: fsmpb.Op_OP_RESERVE, Namespace: "default", Key: key, RequestDigest: "sha256-0",
		AttemptId: fmt.Sprintf("attempt-%012d", attempts.Add(1)),
	}
}

func commitCmd(key string, token uint64) *fsm.Command {
	return &fsm.Command{
		Op: fsmpb.Op_OP_COMMIT, Namespace: "default", Key: key, Token: token,
		Response: []byte(`{"ok":true}`), HasResponse: true, OutcomeDigest: "sha256-1",
	}
}

// decide has one command decided within a generous deadline.
func decide(t testing.TB, n *Node, c *fsm.Command) (fsm.Result, *fsm.Decision) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d, err := n.Decide(ctx, []*fsm.Command{c}, 0)
	if err != nil {
		t.Fatalf("%s on %s: %v", c.Op, n.ID(), err)
	}
	return d.Results[0], d
}

// settled reserves and commits a key.
func settled(t testing.TB, n *Node, key string) fsm.Result {
	t.Helper()
	r, _ := decide(t, n, reserveCmd(key))
	if r.Outcome != fsm.OutcomeReserved {
		t.Fatalf("reserve %s: %v %s", key, r.Outcome, r.Code)
	}
	r, _ = decide(t, n, commitCmd(key, r.Record.Token))
	if r.Outcome != fsm.OutcomeCommitted {
		t.Fatalf("commit %s: %v %s", key, r.Outcome, r.Code)
	}
	return r
}

// gatedLogs holds up writes of the log while the gate is closed.
type gatedLogs struct {
	raft.LogStore
	gate *gate
}

type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open
	held   atomic.Int64
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	ch := g.closed
	g.mu.Unlock()
	if ch != nil {
		g.held.Add(1)
		<-ch
		g.held.Add(-1)
	}
}

func (l gatedLogs) StoreLogs(logs []*raft.Log) error {
	l.gate.pass()
	return l.LogStore.StoreLogs(logs)
}
