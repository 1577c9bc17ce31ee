// Package httpapi is the edge: it routes, decodes strictly, has the node
// decide, and puts every outcome into HTTP by one table (status.go). It knows
// the rules' vocabulary and the small Node interface, never raft.
package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onced/onced/fsm"
)

// DefaultRequestTimeout is how long a call may take to be decided, its wait
// aside.
const DefaultRequestTimeout = 5 * time.Second

// The limits of every call (reliability.md, Security).
const (
	MaxBodyBytes       = 1 << 20
	MaxBatchOperations = 1000
	MaxWait            = 60 * time.Second
	bodyTimeout        = 10 * time.Second
)

// Options are what a Server is made of. Only Node is required.
type Options struct {
	Node           Node
	Logger         *slog.Logger         // nil: discard
	Registry       *prometheus.Registry // nil: one of its own
	RequestTimeout time.Duration        // 0: DefaultRequestTimeout
	// NewID makes attemptIds and correlation ids: unique, 16 to 128 printable
	// ASCII characters. nil: 128 random bits in hexadecimal.
	NewID   func() string
	Version string
	Now     func() time.Time // measures how long calls take; nil: time.Now
}

// Server serves the HTTP API of one node. It is an http.Handler, safe for
// concurrent use; NewHTTPServer wraps it with the limits of a public port.
type Server struct {
	node     Node
	log      *slog.Logger
	timeout  time.Duration
	newID    func() string
	version  string
	now      func() time.Time
	metrics  *metrics
	router   *mux.Router
	memo     memo
	routes   []*route
	openAPI  func() ([]byte, error)
	bodyTime time.Duration // for a body to arrive
	nullHash string        // digest of an absent request
}

// New gives the handler of the API. It starts nothing and touches only the
// registry.
func New(o Options) *Server {
	s := &Server{
		node: o.Node, log: o.Logger, timeout: o.RequestTimeout,
		newID: o.NewID, version: o.Version, now: o.Now,
		openAPI: sync.OnceValues(openAPIDocument), bodyTime: bodyTimeout,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.timeout <= 0 {
		s.timeout = DefaultRequestTimeout
	}
	if s.newID == nil {
		s.newID = randomID
	}
	if s.now == nil {
		s.now = time.Now
	}
	reg := o.Registry
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	s.metrics = newMetrics(reg, s.version)
	s.metrics.namespaces.learn(fsm.DefaultNamespace)
	s.nullHash = digestOfNothing()
	s.routes = s.table()
	s.router = newRouter(s.routes)
	return s
}

// randomID gives 128 random bits: nothing of the host, nothing that counts.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// ServeHTTP answers one request with exactly one write.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{srv: s, w: w, r: r, started: s.now(), operation: "unrouted"}
	c.correlation = correlationOf(r, s.newID)
	defer c.finish()
	c.limitBody()
	if rep := s.dispatch(c); rep != nil {
		c.send(rep)
	}
}
