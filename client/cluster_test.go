package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/onced/onced/client"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/httpapi"
	"github.com/onced/onced/idem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is the real machine behind the real edge, without a log between:
// every node of it decides at once. Its clock is off by years, so that nobody
// who reads its absolute times gets anything right.
type cluster struct {
	mu      sync.Mutex // guards all below
	machine *fsm.Machine
	changed chan struct{}
	fault   error // instead of every decision
	members []idem.NodeStatus
}

const clockOffset = 26 * 365 * 24 * time.Hour

func newCluster() *cluster {
	return &cluster{machine: fsm.New(), changed: make(chan struct{})}
}

func (n *cluster) now() fsm.Time { return fsm.TimeOf(time.Now().Add(clockOffset)) }

// clusterNode is one node's view of it.
type clusterNode struct {
	*cluster
	id string
}

func (n clusterNode) ID() string     { return n.id }
func (n clusterNode) Leader() string { return "n1" }

func (n *cluster) Decide(ctx context.Context, cmds []*fsm.Command, wait time.Duration) (*fsm.Decision, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		n.mu.Lock()
		if n.fault != nil {
			defer n.mu.Unlock()
			return nil, n.fault
		}
		index := n.machine.Index() + 1
		results := n.machine.Apply(index, &fsm.Entry{TimeUs: int64(n.now()), Commands: cmds})
		d := &fsm.Decision{Index: index, Time: n.machine.Now(), Results: results}
		inFlight := wait > 0 && results[0].Code == idem.CodeInFlight
		if !inFlight {
			close(n.changed)
			n.changed = make(chan struct{})
		}
		changed := n.changed
		n.mu.Unlock()
		if !inFlight {
			return d, nil
		}
		select {
		case <-changed:
		case <-over.C:
			return d, nil
		case <-ctx.Done():
			return nil, &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedNo}
		}
	}
}

func (n *cluster) Read(_ context.Context, _ fsm.ReadOptions, f func(*fsm.Machine, fsm.Time)) (uint64, fsm.Time, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fault != nil {
		return 0, 0, n.fault
	}
	f(n.machine, n.now())
	return n.machine.Index(), n.now(), nil
}

func (n *cluster) Ready() []idem.Check   { return nil }
func (n *cluster) Sizes() (int64, int64) { return 0, 0 }

func (n *cluster) Status(context.Context) idem.ClusterStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	leader := "n1"
	return idem.ClusterStatus{ClusterID: "c1", Leader: &leader, Nodes: n.members}
}

func (n *cluster) setFault(err error) {
	n.mu.Lock()
	n.fault = err
	n.mu.Unlock()
}

// handler is the HTTP API of node id.
func (n *cluster) handler(id string) http.Handler {
	return httpapi.New(httpapi.Options{Node: clusterNode{n, id}})
}

// record is the record of key as it is stored.
func (n *cluster) record(t testing.TB, key string) *fsm.Record {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.machine.Record("default", key)
	if !ok {
		t.Fatalf("%s has no record", key)
	}
	return r
}

// status is the status of key as callers see it.
func (n *cluster) status(t testing.TB, key string) string {
	t.Helper()
	r := n.record(t, key)
	n.mu.Lock()
	defer n.mu.Unlock()
	s, _, _ := n.machine.ViewStatus(r, n.now())
	return s
}

func (n *cluster) want(t testing.TB, key, status string) {
	t.Helper()
	if got := n.status(t, key); got != status {
		t.Errorf("%s is %s, want %s", key, got, status)
	}
}

// sent is a call as it went over the wire.
type sent struct {
	host, op string
	body     string
	header   http.Header
	at       time.Time
}

// member gives a member of the call's body.
func (s sent) member(t testing.TB, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s.body), &m); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(m[name])
}

// fate is what becomes of a call on its way.
type fate struct {
	refused bool          // the connection: nothing is sent
	before  time.Duration // on the way there
	after   time.Duration // on the way back
	lost    bool          // the answer, after the node has done its work
	silent  bool          // no answer, and nothing done
	status  int           // answered by something else, with body and header
	body    string
	header  http.Header
}

// wire brings calls to the nodes by their host names, within the process and
// on the clock of the test.
type wire struct {
	nodes map[string]http.Handler
	fate  func(s sent, nth int) fate // nth counts from 1; nil: all goes well

	mu  sync.Mutex // guards log
	log []sent
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var b []byte
	if req.Body != nil {
		b, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	s := sent{req.URL.Host, req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:], string(b), req.Header.Clone(), time.Now()}
	w.mu.Lock()
	w.log = append(w.log, s)
	nth := len(w.log)
	w.mu.Unlock()
	var f fate
	if w.fate != nil {
		f = w.fate(s, nth)
	}
	if f.refused {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if err := sleep(ctx, f.before); err != nil {
		return nil, err
	}
	if f.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	rec := httptest.NewRecorder()
	if f.status != 0 {
		for name, v := range f.header {
			rec.Header()[name] = v
		}
		rec.WriteHeader(f.status)
		_, _ = rec.WriteString(f.body)
	} else {
		in := req.Clone(ctx)
		in.RequestURI, in.Body = req.URL.RequestURI(), io.NopCloser(bytes.NewReader(b))
		w.nodes[req.URL.Host].ServeHTTP(rec, in)
	}
	if err := sleep(ctx, f.after); err != nil {
		return nil, err
	}
	if f.lost {
		return nil, errors.New("connection reset by peer")
	}
	return rec.Result(), nil
}

// calls gives those of one operation, all for "".
func (w *wire) calls(op string) (calls []sent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.log {
		if op == "" || s.op == op {
			calls = append(calls, s)
		}
	}
	return calls
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newWire makes a cluster of three nodes, n1 to n3.
func newWire() (*cluster, *wire) {
	n := newCluster()
	return n, &wire{nodes: map[string]http.Handler{
		"n1": n.handler("n1"), "n2": n.handler("n2"), "n3": n.handler("n3"),
	}}
}

// dial makes a client on w that knows n1, n2 and n3, and learns nothing.
func dial(t testing.TB, w *wire, opts ...client.Option) *client.Client {
	t.Helper()
	opts = append([]client.Option{
		client.WithTransport(w), client.WithoutDiscovery(), client.WithEndpoints("http://n1", "http://n2", "http://n3"),
	}, opts...)
	c, err := client.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// policy makes a namespace, or changes it.
func (w *wire) policy(t testing.TB, namespace, body string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodPut, "/v1/namespaces/"+namespace, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	w.nodes["n1"].ServeHTTP(rec, req)
	if rec.Code/100 != 2 {
		t.Fatalf("PUT %s: %d %s", namespace, rec.Code, rec.Body)
	}
}

// is fails unless err is all of targets.
func is(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("the error is %v, want %v", err, target)
		}
	}
}

func problem(t testing.TB, err error) *idem.Error {
	t.Helper()
	p, ok := errors.AsType[*idem.Error](err)
	if !ok {
		t.Fatalf("%v is no *idem.Error", err)
	}
	return p
}

// mustReserve claims key.
func mustReserve(t testing.TB, c *client.Client, key string) *client.Claim {
	t.Helper()
	res, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key})
	if err != nil || res.Claim == nil {
		t.Fatalf("reserve %s: %v", key, err)
	}
	return res.Claim
}
