package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

const reservedBody = `{"outcome":"reserved","token":"17","attemptId":"A","attempt":1,"resumed":false,"leaseRemaining":"30s","record":{"namespace":"default","key":"order-0001","operation":"","status":"pending","attempt":1,"version":1,"createdAt":"2026-01-01T00:00:00.000Z","replays":0}}`

// fakeNode answers each call with the next of answers, the last for ever.
type fakeNode struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	paths  []string
}

func newFakeNode(t *testing.T, status int, body string) *fakeNode {
	n := &fakeNode{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		n.mu.Lock()
		n.bodies = append(n.bodies, string(b))
		n.paths = append(n.paths, r.Method+" "+r.URL.EscapedPath())
		n.mu.Unlock()
		if status == 0 { // breaks off
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	n.Config.ErrorLog = nil
	t.Cleanup(n.Close)
	return n
}

func (n *fakeNode) attemptIDs(t *testing.T) (ids []string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.bodies {
		var r idem.ReserveRequest
		if err := json.Unmarshal([]byte(b), &r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.AttemptID)
	}
	return ids
}

const unavailableBody = `{"type":"about:blank","title":"T","status":503,"detail":"no leader","code":"idempotency_unavailable","retryable":true,"safeNewKey":false,"applied":"no","correlationId":"c"}`

// A dead node, one that breaks off and one without a leader are passed over,
// and each is asked with the same attemptId (B37).
func TestB37_FailOverKeepsTheAttemptID(t *testing.T) {
	t.Parallel()
	dead := httptest.NewServer(nil)
	dead.Close()
	breaks := newFakeNode(t, 0, "")
	noLeader := newFakeNode(t, 503, unavailableBody)
	good := newFakeNode(t, 201, reservedBody)
	endpoints := strings.Join([]string{dead.URL, breaks.URL, noLeader.URL, good.URL}, ",")
	got := runCommand(t, []string{"ONCED_ENDPOINTS=" + endpoints}, "", "reserve", "order-0001")
	if got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	id := good.attemptIDs(t)[0]
	if len(id) < 16 {
		t.Errorf("attemptId %q is too short", id)
	}
	for _, n := range []*fakeNode{breaks, noLeader} {
		if ids := n.attemptIDs(t); len(ids) != 1 || ids[0] != id {
			t.Errorf("asked with %q, the last node with %q", ids, id)
		}
	}
}

// When nobody answers, the user is told with what to repeat the call.
func TestUnavailableTellsTheAttemptID(t *testing.T) {
	t.Parallel()
	noLeader := newFakeNode(t, 503, unavailableBody)
	got := runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", noLeader.URL)
	if id := noLeader.attemptIDs(t)[0]; got.code != exitUnavailable || !strings.Contains(got.stderr, "--attempt-id "+id) {
		t.Errorf("%+v", got)
	}
	breaks := newFakeNode(t, 0, "")
	got = runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", breaks.URL)
	if id := breaks.attemptIDs(t)[0]; got.code != exitUnavailable || !strings.Contains(got.stderr, "may have been decided") || !strings.Contains(got.stderr, id) {
		t.Errorf("%+v", got)
	}
	// One broke off, the other surely did nothing: together still unknown.
	got = runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", breaks.URL+","+noLeader.URL)
	if got.code != exitUnavailable || !strings.Contains(got.stderr, "may have been decided") {
		t.Errorf("%+v", got)
	}
}

// An answer that decides ends the round: no other node is asked.
func TestDecidedAnswerEndsTheRound(t *testing.T) {
	t.Parallel()
	conflict := newFakeNode(t, 422, strings.NewReplacer("503", "422", "idempotency_unavailable", "idempotency_key_conflict").Replace(unavailableBody))
	other := newFakeNode(t, 201, reservedBody)
	got := runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", conflict.URL+","+other.URL)
	if got.code != exitConflict || len(other.attemptIDs(t)) != 0 {
		t.Errorf("%+v, second node asked with %q", got, other.attemptIDs(t))
	}
}

func TestInterruptedTellsTheAttemptID(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see a hang-up
		cancel()
		<-r.Context().Done()
	}))
	defer node.Close()
	var stdout, stderr syncBuffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	code := a.run(ctx, "reserve", "order-0001", "--attempt-id", "attempt-0123456789", "--endpoints", node.URL)
	if code != exitInterrupted || !strings.Contains(stderr.String(), "--attempt-id attempt-0123456789") {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
}

func TestNotAnOncedNode(t *testing.T) {
	t.Parallel()
	other := newFakeNode(t, 404, "<html>nothing here</html>")
	got := runCommand(t, nil, "", "key", "get", "order-0001", "--endpoints", other.URL)
	if got.code != exitNotFound || !strings.Contains(got.stderr, "not as a node of onced does") {
		t.Errorf("%+v", got)
	}
	hello := newFakeNode(t, 200, "hello")
	if got := runCommand(t, nil, "", "node", "ls", "--endpoints", hello.URL); got.code != exitInternal {
		t.Errorf("%+v", got)
	}
}

// What is sent is what was typed: digits, member order and escapes.
func TestRequestIsSentAsTyped(t *testing.T) {
	t.Parallel()
	const typed = `{"b":9007199254740993,"a":1.50,"e":"\u0041\/"}`
	good := newFakeNode(t, 201, reservedBody)
	for _, args := range [][]string{
		{"reserve", "order-0001", "-n", "pay", "--request", typed, "--lease", "90s", "--ttl", "24h", "--wait", "2s", "--operation", "op"},
		{"reserve", "order-0001", "-n", "pay", "--request", "-"},
		{"commit", "order-0001", "-n", "pay", "--token", "17", "--response", typed},
	} {
		if got := runCommand(t, nil, typed, append(args, "--endpoints", good.URL)...); got.code != exitOK {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	for i, body := range good.bodies {
		if !strings.Contains(body, typed) {
			t.Errorf("call %d sent %s", i, body)
		}
	}
	if want := "POST /v1/namespaces/pay/reserve"; good.paths[0] != want {
		t.Errorf("asked %s, want %s", good.paths[0], want)
	}
	for _, member := range []string{`"lease":"1m30s"`, `"ttl":"24h0m0s"`, `"wait":"2s"`, `"operation":"op"`} {
		if !strings.Contains(good.bodies[0], member) {
			t.Errorf("no %s in %s", member, good.bodies[0])
		}
	}
}

// Empty JSON is JSON: it is an outcome like any other, and no absent one.
func TestEmptyJSONIsSent(t *testing.T) {
	t.Parallel()
	good := newFakeNode(t, 201, reservedBody)
	for i, typed := range []string{`{}`, `[]`, `""`, `null`, `0`, `false`} {
		runCommand(t, nil, "", "reserve", "order-0001", "--request", typed, "--endpoints", good.URL)
		runCommand(t, nil, "", "commit", "order-0001", "--token", "17", "--response", typed, "--endpoints", good.URL)
		if b := good.bodies[2*i]; !strings.Contains(b, `"request":`+typed) {
			t.Errorf("--request %s sent %s", typed, b)
		}
		if b := good.bodies[2*i+1]; !strings.Contains(b, `"response":`+typed) {
			t.Errorf("--response %s sent %s", typed, b)
		}
	}
}

func TestReserveForPeople(t *testing.T) {
	t.Parallel()
	good := newFakeNode(t, 201, reservedBody)
	got := runCommand(t, nil, "", "reserve", "order-0001", "-n", "pay", "--endpoints", good.URL)
	if !strings.Contains(got.stdout, "onced commit order-0001 --token 17 ") || !strings.Contains(got.stdout, "-n pay") {
		t.Errorf("no command to go on with:\n%s", got.stdout)
	}
}

// recordIfMatch keeps the method and If-Match of each call.
func recordIfMatch(h http.Handler, into *[]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*into = append(*into, r.Method+" "+r.Header.Get("If-Match"))
		h.ServeHTTP(w, r)
	})
}
