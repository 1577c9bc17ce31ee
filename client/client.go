package client

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/onced/onced/idem"
)

// Client calls a cluster. It is safe for concurrent use, and meant to be made
// once and kept: it remembers which node answers. Close it when it is of no
// more use.
type Client struct {
	*shared
	namespace string
}

// shared is what the views of one Client on several namespaces have in common.
type shared struct {
	http          *http.Client
	token         string
	budget        time.Duration
	tryTimeout    time.Duration
	settleTimeout time.Duration
	firstPause    time.Duration
	longestPause  time.Duration
	ownTransport  bool
	log           *slog.Logger
	endpoints     *endpoints
	learner       *learner // nil: nothing is learned
	background    *background
}

// New makes a Client. It touches no network: a node that does not answer is
// met by the first call.
//
// The first endpoint is asked until it cannot be reached or answers 503; then
// the next one is, and kept. After a first answer the client also asks the
// cluster for its members (GET /v1/cluster, in the background, every five
// minutes and when the leader changes) and adds their HTTP addresses behind
// the given ones. Learned endpoints never replace given ones, have the scheme
// of the endpoint that told of them, and are left out when they are loopback
// or unspecified addresses told from elsewhere, or when the telling endpoint
// has a path (it is then a proxy's). WithoutDiscovery turns this off.
func New(opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	set, err := newEndpoints(cfg.endpoints)
	if err != nil {
		return nil, err
	}
	s := &shared{
		http: &http.Client{
			Transport: cfg.transport,
			// A node never redirects; what does is none, and must not get the
			// call sent on to wherever it says.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		token: cfg.token, budget: cfg.budget, tryTimeout: cfg.tryTimeout, settleTimeout: cfg.settleTimeout,
		firstPause: cfg.firstPause, longestPause: cfg.longestPause,
		ownTransport: cfg.ownTransport, log: cfg.log, endpoints: set, background: newBackground(),
	}
	if cfg.discover {
		s.learner = &learner{}
	}
	return &Client{s, cfg.namespace}, nil
}

// In gives a view of c on another namespace. It shares everything else with c,
// Close included.
func (c *Client) In(namespace string) (*Client, error) {
	if err := idem.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	return &Client{c.shared, namespace}, nil
}

// Namespace is the namespace that c's calls go to.
func (c *Client) Namespace() string { return c.namespace }

// Close ends what runs in the background and closes idle connections of the
// client's own transport. Calls that are under way are not ended. It always
// gives nil.
func (c *Client) Close() error {
	c.background.close()
	if c.ownTransport {
		c.http.CloseIdleConnections()
	}
	return nil
}

// background holds the few goroutines that outlive the call that started them.
type background struct {
	run   func(f func(ctx context.Context))
	end   context.CancelFunc
	alive sync.WaitGroup

	mu     sync.Mutex // guards closed and count
	closed bool
	count  int
}

// maxBackground bounds the goroutines: beyond it work that is only there to
// make life easier is left undone.
const maxBackground = 64

func newBackground() *background {
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{end: cancel}
	b.run = func(f func(ctx context.Context)) { f(ctx) }
	return b
}

// start runs f beside the caller, and tells whether it could.
func (b *background) start(f func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.count >= maxBackground {
		return false
	}
	b.count++
	b.alive.Go(func() {
		defer func() {
			b.mu.Lock()
			b.count--
			b.mu.Unlock()
		}()
		b.run(f)
	})
	return true
}

func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.alive.Wait()
}
