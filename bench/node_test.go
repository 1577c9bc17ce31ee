package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/httpapi"
	"github.com/onced/onced/idem"
)

// machineNode is a cluster of one without a log: the rules behind the edge of
// the product.
type machineNode struct {
	mu      sync.Mutex // guards machine
	machine *fsm.Machine
}

func (n *machineNode) ID() string     { return "n1" }
func (n *machineNode) Leader() string { return "n1" }

func (n *machineNode) Decide(_ context.Context, cmds []*fsm.Command, _ time.Duration) (*fsm.Decision, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	index := n.machine.Index() + 1
	results := n.machine.Apply(index, &fsm.Entry{TimeUs: int64(fsm.TimeOf(time.Now())), Commands: cmds})
	return &fsm.Decision{Index: index, Time: n.machine.Now(), Results: results}, nil
}

func (n *machineNode) Read(_ context.Context, _ fsm.ReadOptions, f func(*fsm.Machine, fsm.Time)) (uint64, fsm.Time, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.machine, n.machine.Now())
	return n.machine.Index(), n.machine.Now(), nil
}

func (n *machineNode) Ready() []idem.Check { return []idem.Check{{Name: "leader", OK: true}} }

func (n *machineNode) Status(context.Context) idem.ClusterStatus {
	leader := "n1"
	return idem.ClusterStatus{Leader: &leader, Nodes: []idem.NodeStatus{{ID: "n1", HTTPAddress: "http://127.0.0.1:1"}}}
}

func (n *machineNode) Sizes() (logBytes, snapshotBytes int64) { return 0, 0 }

// startNode serves the product's API over a machine of its own; wrap, unless
// nil, comes before it.
func startNode(t *testing.T, wrap func(http.Handler) http.Handler) (endpoint string) {
	t.Helper()
	ids := 0
	var mu sync.Mutex // guards ids
	var h http.Handler = httpapi.NewHTTPServer(httpapi.New(httpapi.Options{
		Node: &machineNode{machine: fsm.New()}, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		RequestTimeout: 5 * time.Second, Version: "test", Now: time.Now,
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return fmt.Sprintf("attempt-%020d", ids)
		},
	})).Handler
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// canned serves one answer to each call.
func canned(t *testing.T, status int, body string) (endpoint string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
