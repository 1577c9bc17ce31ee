package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/cluster/peerpb"
	"github.com/onced/onced/fsm"
)

// ask is a request that the test handlers know by its number.
func ask(number int64) *peerpb.Request {
	return &peerpb.Request{Body: &peerpb.Request_Fence{Fence: &peerpb.Fence{BudgetUs: number}}}
}

func reply(number int64) *peerpb.Response {
	return &peerpb.Response{Body: &peerpb.Response_Decision{Decision: &peerpb.Decision{TimeUs: number}}}
}

func echo(_ context.Context, _ string, req *peerpb.Request) *peerpb.Response {
	return reply(req.GetFence().GetBudgetUs())
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestPeerCallsShareAConnection(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	var from sync.Map
	all := make(chan struct{})
	var inside atomic.Int32
	nodes[1].net.serve(func(ctx context.Context, who string, req *peerpb.Request) *peerpb.Response {
		from.Store(who, true)
		if inside.Add(1) == 50 { // only when all are under way at once
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
		return echo(ctx, who, req)
	})
	var wg sync.WaitGroup
	for i := range int64(50) {
		wg.Go(func() {
			resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(i))
			if err != nil || resp.GetDecision().GetTimeUs() != i {
				t.Errorf("call %d: %v %v", i, resp, err)
			}
		})
	}
	wg.Wait()
	if _, ok := from.Load("n1"); !ok {
		t.Error("the handler is not told who asks")
	}
	nodes[1].net.connsMu.Lock()
	defer nodes[1].net.connsMu.Unlock()
	if nodes[1].net.accepted != 1 {
		t.Errorf("%d connections", nodes[1].net.accepted)
	}
}

func TestPeerBeforeServe(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(1))
	if err != nil || resp.GetRefusal().GetReason() != peerpb.Refusal_NOT_READY {
		t.Fatal(resp, err)
	}
	nodes[1].net.serve(func(context.Context, string, *peerpb.Request) *peerpb.Response { return nil })
	if resp, err = nodes[0].net.call(within(t), nodes[1].addr(), ask(1)); err != nil || resp.GetUnknown() == nil {
		t.Fatal(resp, err)
	}
	if resp, err = nodes[0].net.call(within(t), nodes[1].addr(), &peerpb.Request{}); err != nil || resp.GetRefusal() == nil {
		t.Fatal(resp, err)
	}
}

// What surely did not reach the handler says so.
func TestPeerNotSent(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 3, true)
	n1 := nodes[0].net
	nodes[1].net.serve(echo)
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = unused.Close()
	_, err = n1.call(within(t), unused.Addr().String(), ask(1))
	if !errors.Is(err, errNotSent) {
		t.Errorf("nobody listens: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = n1.call(over, nodes[1].addr(), ask(1)); !errors.Is(err, errNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("ctx is over: %v", err)
	}
	if err := nodes[2].id.update(func(id *identity) { id.Instance = "wiped" }); err != nil {
		t.Fatal(err)
	}
	if _, err = n1.call(within(t), nodes[2].addr(), ask(1)); !errors.Is(err, errNotSent) {
		t.Errorf("n3 has other data: %v", err)
	}
	if _, err = nodes[2].net.call(within(t), nodes[1].addr(), ask(1)); !errors.Is(err, errNotSent) {
		t.Errorf("refused: %v", err)
	}
	large := &peerpb.Request{Body: &peerpb.Request_Propose{Propose: &peerpb.Propose{
		Commands: []*fsm.Command{{Response: make([]byte, maxFrame)}},
	}}}
	if _, err = n1.call(within(t), nodes[1].addr(), large); !errors.Is(err, errNotSent) || !errors.Is(err, errFrameTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if resp, err := n1.call(within(t), nodes[1].addr(), ask(1)); err != nil {
		t.Errorf("after all that: %v %v", resp, err)
	}
	n1.close()
	if _, err = n1.call(within(t), nodes[1].addr(), ask(1)); !errors.Is(err, errNotSent) {
		t.Errorf("closed: %v", err)
	}
}

// B35: a connection that ends after the request was read leaves the outcome
// open, for all calls on it at once; the next call dials anew.
func TestB35_CutAfterTheRequest(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	inside := make(chan struct{}, 2)
	var asked atomic.Int32
	nodes[1].net.serve(func(ctx context.Context, _ string, req *peerpb.Request) *peerpb.Response {
		if req.GetFence().GetBudgetUs() < 10 {
			asked.Add(1)
			inside <- struct{}{}
			<-ctx.Done() // ends with the connection
		}
		return echo(ctx, "", req)
	})
	errs := make(chan error, 2)
	for i := range int64(2) {
		go func() {
			_, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(i))
			errs <- err
		}()
	}
	<-inside
	<-inside
	nodes[1].net.connsMu.Lock()
	for c := range nodes[1].net.conns {
		_ = c.Conn.Close()
	}
	nodes[1].net.connsMu.Unlock()
	for range 2 {
		if err := <-errs; err == nil || errors.Is(err, errNotSent) {
			t.Errorf("got %v, want an error that leaves it open", err)
		}
	}
	if resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(10)); err != nil || resp.GetDecision().GetTimeUs() != 10 {
		t.Error(resp, err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("two calls became %d", n)
	}
}

func TestPeerCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	inside, release := make(chan struct{}), make(chan struct{})
	nodes[1].net.serve(func(ctx context.Context, _ string, req *peerpb.Request) *peerpb.Response {
		if req.GetFence().GetBudgetUs() == 1 {
			close(inside)
			<-release
		}
		return echo(ctx, "", req)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-inside
		cancel()
	}()
	_, err := nodes[0].net.call(ctx, nodes[1].addr(), ask(1))
	if !errors.Is(err, context.Canceled) || errors.Is(err, errNotSent) {
		t.Errorf("got %v", err)
	}
	close(release) // its answer comes late, and goes nowhere
	for i := int64(2); i < 5; i++ {
		if resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(i)); err != nil || resp.GetDecision().GetTimeUs() != i {
			t.Error(resp, err)
		}
	}
}

// A connection on which nothing comes any more is left for a new one.
func TestPeerSilentConnectionIsRetired(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	nodes[1].net.serve(func(ctx context.Context, _ string, req *peerpb.Request) *peerpb.Response {
		if req.GetFence().GetBudgetUs() == 1 {
			<-ctx.Done()
		}
		return echo(ctx, "", req)
	})
	ctx, cancel := context.WithTimeout(t.Context(), quietAfter+100*time.Millisecond)
	defer cancel()
	if _, err := nodes[0].net.call(ctx, nodes[1].addr(), ask(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	link := nodes[0].net.link(nodes[1].addr())
	link.linkMu.Lock()
	kept := link.conn
	link.linkMu.Unlock()
	if kept != nil {
		t.Error("it is still used")
	}
	eventually(t, "the connection, which nobody uses, is closed", func() bool {
		nodes[0].net.connsMu.Lock()
		defer nodes[0].net.connsMu.Unlock()
		return len(nodes[0].net.conns) == 0
	})
	if resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(2)); err != nil {
		t.Error(resp, err)
	}
}

// A kept connection that ends before the request is on it costs nothing.
func TestPeerConnectionEndsBeforeTheRequest(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	nodes[1].net.serve(echo)
	near, far := net.Pipe()
	defer far.Close()
	tracked, err := nodes[0].net.track(near, false)
	if err != nil {
		t.Fatal(err)
	}
	link := nodes[0].net.link(nodes[1].addr())
	stuck := &peerConn{ // nobody writes what it takes
		link: link, conn: tracked, out: make(chan []byte), born: time.Now(),
		gone: make(chan struct{}), pending: map[uint64]chan *peerpb.Response{},
	}
	link.conn = stuck
	done := make(chan error, 1)
	go func() {
		resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(5))
		if err == nil && resp.GetDecision().GetTimeUs() != 5 {
			err = fmt.Errorf("answer %v", resp)
		}
		done <- err
	}()
	eventually(t, "a call on it", func() bool {
		stuck.pendingMu.Lock()
		defer stuck.pendingMu.Unlock()
		return len(stuck.pending) == 1
	})
	stuck.end(io.EOF)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPeerRestart(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	nodes[1].net.serve(echo)
	for round := range int64(5) {
		eventually(t, "an answer after a restart", func() bool {
			resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(round))
			return err == nil && resp.GetDecision().GetTimeUs() == round
		})
		nodes[1].net.close()
		eventually(t, "a bound port", func() bool {
			l, err := net.Listen("tcp", nodes[1].addr())
			nodes[1].cfg.Listener = l
			return err == nil
		})
		nodes[1].open()
		nodes[1].net.serve(echo)
	}
	nodes[1].net.close()
}

func TestPeerOverload(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	release := make(chan struct{})
	nodes[1].net.served = make(chan struct{}, 2)
	inside := make(chan struct{}, 2)
	nodes[1].net.serve(func(ctx context.Context, who string, req *peerpb.Request) *peerpb.Response {
		inside <- struct{}{}
		<-release
		return echo(ctx, who, req)
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(1)); err != nil {
				t.Error(err)
			}
		})
		<-inside
	}
	resp, err := nodes[0].net.call(within(t), nodes[1].addr(), ask(1))
	if err != nil || resp.GetRefusal().GetReason() != peerpb.Refusal_OVERLOADED {
		t.Error(resp, err)
	}
	close(release)
	wg.Wait()
}

func TestHello(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, true)
	r, err := nodes[0].net.hello(within(t), nodes[1].addr())
	if err != nil || r.NodeId != "n2" || r.KnownInstance != "instance-n1" || r.WallUs == 0 || r.Refused != "" {
		t.Fatal(r, err)
	}
}
