package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/onced/onced/client"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/gateway"
	"github.com/onced/onced/httpapi"
	"github.com/onced/onced/idem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is the real machine behind the real edge, without a log between, on a
// clock that a test may set forward.
type cluster struct {
	server *httptest.Server

	mu      sync.Mutex // guards all below
	machine *fsm.Machine
	ahead   time.Duration
	at      time.Time // what the clock shows, if it stands still
	changed chan struct{}
	fault   error        // instead of every decision
	settled func() error // instead of every decision but a reserve
}

func newCluster(t testing.TB) *cluster {
	n := &cluster{machine: fsm.New(), changed: make(chan struct{})}
	n.server = httptest.NewServer(httpapi.New(httpapi.Options{Node: n}))
	t.Cleanup(n.server.Close)
	return n
}

func (n *cluster) ID() string     { return "n1" }
func (n *cluster) Leader() string { return "n1" }

func (n *cluster) now() fsm.Time {
	if !n.at.IsZero() {
		return fsm.TimeOf(n.at)
	}
	return fsm.TimeOf(time.Now().Add(n.ahead))
}

func (n *cluster) Decide(ctx context.Context, cmds []*fsm.Command, wait time.Duration) (*fsm.Decision, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		n.mu.Lock()
		fault := n.fault
		if n.settled != nil && cmds[0].Token != 0 {
			fault = n.settled()
		}
		if fault != nil {
			n.mu.Unlock()
			return nil, fault
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

func (n *cluster) Status(context.Context) idem.ClusterStatus { return idem.ClusterStatus{} }

// set changes what is guarded by mu.
func (n *cluster) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// client is a client of the cluster.
func (n *cluster) client(t testing.TB) *client.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 512}
	c, err := client.New(client.WithEndpoints(n.server.URL), client.WithoutDiscovery(), client.WithTransport(transport))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); transport.CloseIdleConnections() })
	return c
}

// policy makes or changes a namespace.
func (n *cluster) policy(t testing.TB, name, policy string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPut, n.server.URL+"/v1/namespaces/"+name, strings.NewReader(policy))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if res.StatusCode/100 != 2 {
		t.Fatalf("policy: %d %s", res.StatusCode, b)
	}
}

// record is the record of a key as callers see it, nil when there is none.
func (n *cluster) record(t testing.TB, key string) *idem.Record {
	t.Helper()
	rec, err := n.client(t).Get(t.Context(), client.GetRequest{Key: key})
	if err != nil {
		return nil
	}
	return rec
}

// want holds the status of a key against what it should be; "" is no record.
func (n *cluster) want(t testing.TB, key, status string) {
	t.Helper()
	got := ""
	if rec := n.record(t, key); rec != nil {
		got = rec.Status
	}
	if got != status {
		t.Errorf("%s is %q, want %q", key, got, status)
	}
}

// front is a gateway in front of an upstream, and a caller of it.
type front struct {
	*cluster
	t      testing.TB
	guard  *gateway.Guard
	server *httptest.Server
	caller *http.Client
	events chan gateway.Event
}

// newFront puts a reverse proxy with one rule in front of upstream.
func newFront(t testing.TB, upstream string, rule gateway.Rule) *front {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	rule.Upstream = u
	f := frontOf(t, rule)
	f.serve(f.guard.Proxy())
	return f
}

// newWrapped puts a middleware with one rule around a handler.
func newWrapped(t testing.TB, handler http.HandlerFunc, rule gateway.Rule) *front {
	t.Helper()
	f := frontOf(t, rule)
	f.serve(f.guard.Middleware(handler))
	return f
}

func frontOf(t testing.TB, rules ...gateway.Rule) *front {
	t.Helper()
	f := &front{cluster: newCluster(t), t: t, events: make(chan gateway.Event, 100_000)}
	var err error
	f.guard, err = gateway.New(gateway.Config{Client: f.client(t), Rules: rules, Observe: func(e gateway.Event) { f.events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *front) serve(h http.Handler) {
	f.server = httptest.NewServer(h)
	// Without connections that are used again, so that the caller's own net/http
	// sends nothing twice behind the test's back.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	f.caller = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.t.Cleanup(func() {
		transport.CloseIdleConnections()
		f.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		if err := f.guard.Wait(ctx); err != nil {
			f.t.Errorf("the guard did not end: %v", err)
		}
	})
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   []byte
	code   string // of a problem
	err    error
}

// post sends a request with a key; headers are pairs.
func (f *front) post(path, key, body string, headers ...string) got {
	f.t.Helper()
	return f.send(http.MethodPost, path, key, body, headers...)
}

func (f *front) send(method, path, key, body string, headers ...string) got {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, f.server.URL+path, r)
	if err != nil {
		return got{err: err}
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return f.do(req)
}

func (f *front) do(req *http.Request) got {
	res, err := f.caller.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	g := got{status: res.StatusCode, header: res.Header, body: b, err: err}
	if res.Header.Get("Content-Type") == "application/problem+json" {
		var p idem.Problem
		_ = json.Unmarshal(b, &p)
		g.code = string(p.Code)
	}
	return g
}

// is holds an answer against a status and a problem's code ("": none).
func (f *front) is(g got, status int, code string) got {
	f.t.Helper()
	if g.err != nil || g.status != status || g.code != code {
		f.t.Fatalf("answered %d %q (%v) %s, want %d %q", g.status, g.code, g.err, g.body, status, code)
	}
	return g
}

// same holds a replay against the first answer.
func (f *front) same(first, again got) {
	f.t.Helper()
	if again.err != nil || first.status != again.status || !bytes.Equal(first.body, again.body) {
		f.t.Errorf("replayed %d %.200q (%v), the first was %d %.200q", again.status, again.body, again.err, first.status, first.body)
	}
	if again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") == "true" {
		f.t.Errorf("Idempotent-Replayed: %q, then %q", first.header.Get("Idempotent-Replayed"), again.header.Get("Idempotent-Replayed"))
	}
}

// exchange is an upstream over bare sockets that counts what it was asked to do.
type exchange struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex // guards all below
	effects map[string]int
	conns   map[net.Conn]bool
}

// start listens; each connection is given to serve.
func (x *exchange) start(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	x.effects, x.conns = map[string]int{}, map[net.Conn]bool{}
	var err error
	if x.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	x.wg.Go(func() {
		for {
			conn, err := x.listener.Accept()
			if err != nil {
				return
			}
			x.mu.Lock()
			x.conns[conn] = true
			x.mu.Unlock()
			x.wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		x.listener.Close()
		x.mu.Lock()
		for c := range x.conns {
			c.Close()
		}
		x.mu.Unlock()
		x.wg.Wait()
	})
	return "http://" + x.listener.Addr().String()
}

// did counts an effect and gives how many there are now in all.
func (x *exchange) did(key string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.effects[key]++
	n := 0
	for _, c := range x.effects {
		n += c
	}
	return n
}

func (x *exchange) count(key string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.effects[key]
}

// eventually polls until f says that it is so.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		timer := time.NewTimer(2 * time.Millisecond)
		<-timer.C
	}
}
