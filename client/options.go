package client

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/onced/onced/idem"
)

// The defaults of a Client.
const (
	// DefaultEndpoint is asked when no endpoint is given.
	DefaultEndpoint = "http://127.0.0.1:4747"
	// DefaultNamespace exists in every cluster.
	DefaultNamespace = "default"
	// DefaultBudget bounds a call whose context has no deadline.
	DefaultBudget = 10 * time.Second
	// DefaultTryTimeout bounds one try at one node.
	DefaultTryTimeout = 5 * time.Second
	// DefaultSettleTimeout bounds how long Do tries to record what a run came
	// to, once it has ended.
	DefaultSettleTimeout = 30 * time.Second
)

type config struct {
	endpoints     []string
	namespace     string
	token         string
	budget        time.Duration
	tryTimeout    time.Duration
	settleTimeout time.Duration
	firstPause    time.Duration
	longestPause  time.Duration
	transport     http.RoundTripper
	ownTransport  bool
	discover      bool
	log           *slog.Logger
}

// Option sets one thing of a Client; New checks all of them.
type Option func(*config) error

// WithEndpoints names nodes by their base URLs ("http://10.0.0.1:4747"; without
// a scheme, http). The first is asked first, so put the nearest there; the
// others take over when it cannot be reached. Any node serves any call.
func WithEndpoints(urls ...string) Option {
	return func(c *config) error {
		c.endpoints = append(c.endpoints, urls...)
		return nil
	}
}

// WithNamespace sets the namespace of all calls, "default" without it.
func WithNamespace(name string) Option {
	return func(c *config) error {
		c.namespace = name
		return asError(idem.CheckNamespace(name))
	}
}

// WithToken sends token as "Authorization: Bearer" with every call, to learned
// endpoints too.
func WithToken(token string) Option {
	return func(c *config) error {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return invalid("WithToken: a token is printable ASCII without spaces")
		}
		c.token = token
		return nil
	}
}

// WithBudget bounds a call whose context has no deadline: how long it goes on
// trying, pauses included. A context with a deadline is its own budget.
func WithBudget(d time.Duration) Option {
	return positive("WithBudget", d, func(c *config) { c.budget = d })
}

// WithTryTimeout bounds one try at one node, after which the next is asked.
// With several nodes a try gets at most half of what is left of the budget, so
// that one silent node does not eat all of it.
func WithTryTimeout(d time.Duration) Option {
	return positive("WithTryTimeout", d, func(c *config) { c.tryTimeout = d })
}

// WithSettleTimeout bounds how long Do tries to record what a run came to.
func WithSettleTimeout(d time.Duration) Option {
	return positive("WithSettleTimeout", d, func(c *config) { c.settleTimeout = d })
}

// WithBackOff sets the pauses between rounds over all nodes: drawn evenly from
// 0 to a bound that begins at first and doubles up to longest (full jitter).
func WithBackOff(first, longest time.Duration) Option {
	return func(c *config) error {
		if first <= 0 || longest < first {
			return invalid(fmt.Sprintf("WithBackOff: %s to %s is no range above zero", first, longest))
		}
		c.firstPause, c.longestPause = first, longest
		return nil
	}
}

// WithTransport sends calls through rt instead of a transport of the client's
// own. The client does not close its connections.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *config) error {
		if rt == nil {
			return invalid("WithTransport: the transport is nil")
		}
		c.transport, c.ownTransport = rt, false
		return nil
	}
}

// WithoutDiscovery keeps to the given endpoints: see New for what is learned
// otherwise.
func WithoutDiscovery() Option {
	return func(c *config) error {
		c.discover = false
		return nil
	}
}

// WithLogger logs fail-overs, lost leases and unguarded runs; without it
// nothing is logged. Keys and tokens of callers are never logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		if l != nil {
			c.log = l
		}
		return nil
	}
}

func positive(name string, d time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d <= 0 {
			return invalid(fmt.Sprintf("%s: %s is not above zero", name, d))
		}
		set(c)
		return nil
	}
}

func newConfig(opts []Option) (*config, error) {
	c := &config{
		namespace: DefaultNamespace, budget: DefaultBudget, tryTimeout: DefaultTryTimeout,
		settleTimeout: DefaultSettleTimeout, firstPause: 50 * time.Millisecond, longestPause: 2 * time.Second,
		ownTransport: true, discover: true, log: slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	if len(c.endpoints) == 0 {
		c.endpoints = []string{DefaultEndpoint}
	}
	if c.ownTransport {
		c.transport = newTransport()
	}
	return c, nil
}

// newTransport is the standard one with a short dial, so that a dead host is
// left soon, and room for the connections of a busy gateway.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 3 * time.Second
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 256
	t.DisableCompression = true
	return t
}
