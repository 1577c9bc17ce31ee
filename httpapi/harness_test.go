package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/httpapi/openapitest"
	"github.com/onced/onced/httpapi/plainhttp"
	"github.com/onced/onced/idem"
)

// fakeNode is a cluster of one without a log: the machine, a clock that the
// test moves, and faults that the test sets.
type fakeNode struct {
	mu      sync.Mutex // guards everything below
	machine *fsm.Machine
	clock   fsm.Time
	changed chan struct{} // closed at every apply
	err     error         // what Decide and Read answer instead
	panics  bool
	leader  string
	checks  []idem.Check
	decided []*fsm.Command
	waits   []time.Duration
	lefts   []time.Duration // time to the deadline as Decide was entered
	reads   []fsm.ReadOptions
	ctxErrs []error       // of the contexts as Decide was left
	hold    chan struct{} // Decide waits for it, or for its context
	noWait  bool          // duplicates are not parked
	mutate  func(*fsm.Decision)
}

var epoch = fsm.TimeOf(time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC))

func newFakeNode() *fakeNode {
	return &fakeNode{
		machine: fsm.New(), clock: epoch, leader: "n1", changed: make(chan struct{}),
		checks: []idem.Check{{Name: "leader", OK: true, Detail: "n1"}, {Name: "caught-up", OK: true}},
	}
}

func (n *fakeNode) ID() string { return "n1" }

func (n *fakeNode) Leader() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader
}

func (n *fakeNode) Decide(ctx context.Context, cmds []*fsm.Command, wait time.Duration) (*fsm.Decision, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	n.mu.Lock()
	n.waits = append(n.waits, wait)
	deadline, _ := ctx.Deadline()
	n.lefts = append(n.lefts, time.Until(deadline))
	hold := n.hold
	if n.noWait {
		wait = 0
	}
	n.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	for {
		d, changed, err := n.decide(ctx, cmds)
		if err != nil || wait == 0 || d.Results[0].Code != idem.CodeInFlight {
			return d, err
		}
		select {
		case <-changed:
		case <-over.C:
			return d, nil
		case <-ctx.Done():
			return d, nil
		}
	}
}

func (n *fakeNode) decide(ctx context.Context, cmds []*fsm.Command) (*fsm.Decision, chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ctxErrs = append(n.ctxErrs, ctx.Err())
	n.panicIfAsked()
	if n.err != nil {
		return nil, nil, n.err
	}
	n.decided = append(n.decided, cmds...)
	index := n.machine.Index() + 1
	results := n.machine.Apply(index, &fsm.Entry{TimeUs: int64(n.clock), Commands: cmds})
	close(n.changed)
	n.changed = make(chan struct{})
	d := &fsm.Decision{Index: index, Time: n.machine.Now(), Results: results}
	if n.mutate != nil {
		n.mutate(d)
	}
	return d, n.changed, nil
}

func (n *fakeNode) Read(_ context.Context, o fsm.ReadOptions, f func(*fsm.Machine, fsm.Time)) (uint64, fsm.Time, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads = append(n.reads, o)
	n.panicIfAsked()
	if n.err != nil {
		return 0, 0, n.err
	}
	f(n.machine, n.clock)
	return n.machine.Index(), n.clock, nil
}

// panicIfAsked needs mu.
func (n *fakeNode) panicIfAsked() {
	if n.panics {
		panic("a secret of the inside")
	}
}

func (n *fakeNode) Ready() []idem.Check {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.panicIfAsked()
	return slices.Clone(n.checks)
}

func (n *fakeNode) Status(context.Context) idem.ClusterStatus {
	n.set(n.panicIfAsked)
	leader := n.Leader()
	s := idem.ClusterStatus{
		ClusterID: "c1", Leader: &leader, Term: 2, Quorum: idem.Quorum{Voters: 1, Reachable: 1, Needed: 1},
		Nodes: []idem.NodeStatus{{ID: "n1", HTTPAddress: "http://127.0.0.1:4747", PeerAddress: "127.0.0.1:4748", Role: "leader", Voter: true}},
	}
	if leader == "" {
		s.Leader, s.Nodes = nil, nil
	}
	return s
}

func (n *fakeNode) Sizes() (int64, int64) { return 4096, 1024 }

// advance moves log time.
func (n *fakeNode) advance(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock = n.clock.Add(d)
}

func (n *fakeNode) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// hash is the state of everything that is stored, the index aside: each
// decision, a refused one too, has its own.
func (n *fakeNode) hash() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, ns := range n.machine.Namespaces() {
		b.WriteString(ns.Name + strconv.FormatUint(ns.Version, 10) + ";")
		recs, _ := n.machine.Records(ns.Name, fsm.ListOptions{Limit: 100_000}, n.clock)
		for _, r := range recs {
			b.WriteString(r.Key + r.Status.String() + strconv.FormatUint(r.Version, 10) + string(r.Response) + ";")
		}
	}
	return b.String()
}

// edge is a running server and its node.
type edge struct {
	t    testing.TB
	node *fakeNode
	srv  *Server
	url  string
	addr string
	logs *lockedBuffer
	http *http.Client

	mu       sync.Mutex // guards contexts
	contexts []context.Context
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newEdge(t testing.TB, options ...func(*Options)) *edge {
	t.Helper()
	e := &edge{t: t, node: newFakeNode(), logs: &lockedBuffer{}}
	ids := 0
	var mu sync.Mutex
	o := Options{
		Node: e.node, Version: "v0.0.0-test",
		Logger: slog.New(slog.NewTextHandler(e.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return "made-here-" + strconv.Itoa(1000000+ids)
		},
	}
	for _, f := range options {
		f(&o)
	}
	e.srv = New(o)
	config := NewHTTPServer(e.srv)
	config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.contexts = append(e.contexts, r.Context())
		e.mu.Unlock()
		e.srv.ServeHTTP(w, r)
	})
	config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := plainhttp.New(config) // as a node does
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
	e.addr = l.Addr().String()
	e.url = "http://" + e.addr
	e.http = &http.Client{Transport: contract(t).Transport(transport, t.Errorf)}
	e.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		t.Error("the server answered with a redirect")
		return http.ErrUseLastResponse
	}
	return e
}

// got is an answer, its body kept as sent and decoded.
type got struct {
	t      testing.TB
	status int
	header http.Header
	raw    string
	json   map[string]any
}

// do sends a call. The client's transport holds it and its answer against
// openapi.yaml.
func (e *edge) do(method, path, body string, headers ...string) *got {
	e.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, e.url+path, rd)
	if err != nil {
		e.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "-" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	res, err := e.http.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	g := &got{t: e.t, status: res.StatusCode, header: res.Header, raw: string(raw)}
	if strings.Contains(g.raw, `"response":1e400`) {
		return g // well-formed, and more than a Go float64 holds
	}
	if strings.Contains(res.Header.Get("Content-Type"), "json") && len(raw) > 0 {
		if err := json.Unmarshal(raw, &g.json); err != nil {
			e.t.Fatalf("%s %s: body is not JSON: %v\n%s", method, path, err, raw)
		}
	}
	e.holds(req, g)
	return g
}

// post sends an operation of the default namespace.
func (e *edge) post(op, body string, headers ...string) *got {
	e.t.Helper()
	return e.do("POST", "/v1/namespaces/default/"+op, body, headers...)
}

// holds checks what is so of every answer.
func (e *edge) holds(req *http.Request, g *got) {
	e.t.Helper()
	for name, want := range map[string]string{"Cache-Control": "no-store", "Onced-Node": "n1"} {
		if v := g.header.Get(name); v != want {
			e.t.Errorf("%s %s: %s is %q, want %q", req.Method, req.URL.Path, name, v, want)
		}
	}
	if g.header.Get("X-Correlation-ID") == "" {
		e.t.Errorf("%s %s: no X-Correlation-ID", req.Method, req.URL.Path)
	}
	if g.status >= 300 && g.status < 400 {
		e.t.Errorf("%s %s: status %d is a redirect", req.Method, req.URL.Path, g.status)
	}
}

var loadContract = sync.OnceValues(func() (*openapitest.Contract, error) {
	return openapitest.Load(openAPISource)
})

// contract is openapi.yaml and what the tests of this process have seen of it.
func contract(t testing.TB) *openapitest.Contract {
	t.Helper()
	c, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// at gives the member at a path of names, nil when it is not there.
func (g *got) at(path ...string) any {
	var v any = g.json
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func (g *got) str(path ...string) string {
	s, _ := g.at(path...).(string)
	return s
}

// ok fails the test unless the status is as wanted.
func (g *got) ok(status int) *got {
	g.t.Helper()
	if g.status != status {
		g.t.Fatalf("status %d, want %d: %s", g.status, status, g.raw)
	}
	return g
}

// problem fails the test unless the answer is a complete problem with the code.
func (g *got) problem(status int, code idem.Code) *got {
	g.t.Helper()
	if g.status != status || g.str("code") != string(code) {
		g.t.Fatalf("got %d %s, want %d %s: %s", g.status, g.str("code"), status, code, g.raw)
	}
	if ct := g.header.Get("Content-Type"); ct != "application/problem+json" {
		g.t.Errorf("Content-Type %q", ct)
	}
	if g.str("type") != ProblemTypeBase+string(code) || g.str("title") == "" || g.str("detail") == "" || g.at("status") != float64(status) {
		g.t.Errorf("incomplete problem: %s", g.raw)
	}
	// Only a key without a claim, and only for good, is proved to start nothing.
	safe := code.SafeNewKey() && (g.at("record") == nil || g.at("record", "attempt") == 0.0) && !strings.Contains(g.str("detail"), "born ahead")
	if g.at("retryable") != code.Retryable() || g.at("safeNewKey") != safe {
		g.t.Errorf("retryable or safeNewKey wrong: %s", g.raw)
	}
	if g.str("correlationId") != g.header.Get("X-Correlation-ID") {
		g.t.Errorf("correlationId %q, header %q", g.str("correlationId"), g.header.Get("X-Correlation-ID"))
	}
	if g.status == 503 || g.status == 429 || code == idem.CodeInFlight {
		seconds, err := strconv.ParseInt(g.header.Get("Retry-After"), 10, 64)
		ms, _ := g.at("retryAfterMs").(float64)
		if err != nil || seconds < 1 || ms < 1 || float64(seconds)*1000 < ms {
			g.t.Errorf("Retry-After %q, retryAfterMs %v", g.header.Get("Retry-After"), g.at("retryAfterMs"))
		}
	}
	return g
}

// says fails the test unless the detail names something.
func (g *got) says(part string) *got {
	g.t.Helper()
	if !strings.Contains(g.str("detail"), part) {
		g.t.Errorf("detail %q does not name %q", g.str("detail"), part)
	}
	return g
}

// reserve claims key with attempt and gives the token.
func (e *edge) reserve(key, attempt string) string {
	e.t.Helper()
	g := e.post("reserve", `{"key":"`+key+`","attemptId":"`+attempt+`"}`).ok(201)
	return g.str("token")
}

// namespace makes a namespace with a policy.
func (e *edge) namespace(name, policy string) {
	e.t.Helper()
	g := e.do("PUT", "/v1/namespaces/"+name, policy)
	if g.status != 201 && g.status != 200 {
		e.t.Fatalf("PUT namespace: %d %s", g.status, g.raw)
	}
}

// unchanged runs f and fails if anything that is stored has changed.
func (e *edge) unchanged(f func()) {
	e.t.Helper()
	before := e.node.hash()
	f()
	if after := e.node.hash(); after != before {
		e.t.Errorf("a refused call changed the state:\n%s\n%s", before, after)
	}
}

// raw writes bytes to the socket and gives what comes back until the server
// closes or a whole answer is there.
func (e *edge) raw(request string) *http.Response {
	e.t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		e.t.Fatal(err)
	}
	return readResponse(e.t, conn)
}

const (
	attemptA = "attempt-a-0000000001"
	attemptB = "attempt-b-0000000002"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// replayNode answers settled keys from memory, as a node of the cluster does.
type replayNode struct{ *fakeNode }

func (n *replayNode) Decide(ctx context.Context, cmds []*fsm.Command, wait time.Duration) (*fsm.Decision, error) {
	if len(cmds) == 1 {
		n.mu.Lock()
		res, ok := n.machine.Replay(cmds[0], n.clock)
		index := n.machine.Index()
		n.mu.Unlock()
		if ok {
			return &fsm.Decision{Index: index, Time: n.clock, Results: []fsm.Result{res}, Local: true}, nil
		}
	}
	return n.fakeNode.Decide(ctx, cmds, wait)
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }
