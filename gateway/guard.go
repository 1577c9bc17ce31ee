package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onced/onced/client"
)

// Config is what a Guard is made of.
type Config struct {
	Client *client.Client // required; the Guard does not close it
	Rules  []Rule         // the first that matches a path decides; nil: one zero Rule
	Logger *slog.Logger   // nil: nothing is logged. Keys are logged as digests.
	// Observe is told of every request, after its answer; nil: nobody is. It is
	// called by many goroutines.
	Observe func(Event)
}

// Event is one request as metrics count it.
type Event struct {
	Rule string // its name; "" when no rule matched
	// Outcome is passed (unguarded), committed, failed, released, uncertain,
	// unrecorded (known, and not recorded in time), replayed, or refused.
	Outcome  string
	Code     string        // with refused, and of errors: the problem's code
	Status   int           // as answered; 0 when the handler's own writer knows
	Duration time.Duration // in all
	Upstream time.Duration // of it in the handler or upstream
}

// Guard guards requests by its rules. It is safe for concurrent use.
type Guard struct {
	client  *client.Client
	log     *slog.Logger
	observe func(Event)
	rules   atomic.Pointer[ruleset]
	send    *transport

	mu         sync.Mutex // guards namespaces
	namespaces map[string]*namespace

	alive sync.WaitGroup // what goes on after its answer
}

// ruleset is a list of rules, complete and not changed any more.
type ruleset struct {
	rules []Rule
	paths bool // the path of a request decides something
}

// New makes a Guard. It touches no network. The error of a rule names the rule
// and its field.
func New(cfg Config) (*Guard, error) {
	if cfg.Client == nil {
		return nil, errors.New("gateway: Config.Client is nil")
	}
	g := &Guard{client: cfg.Client, log: cfg.Logger, observe: cfg.Observe, send: newTransport(), namespaces: map[string]*namespace{}}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.observe == nil {
		g.observe = func(Event) {}
	}
	rules := cfg.Rules
	if rules == nil {
		rules = []Rule{{}}
	}
	return g, g.SetRules(rules)
}

// SetRules puts other rules into force, all at once; requests that are under way
// keep theirs. On an error the old ones stay.
func (g *Guard) SetRules(rules []Rule) error {
	set, err := completeRules(rules)
	if err != nil {
		return err
	}
	for i := range set.rules {
		if _, err := g.namespace(&set.rules[i]); err != nil {
			return err
		}
	}
	g.rules.Store(set)
	return nil
}

// RuleError is what is wrong with one of several rules.
type RuleError struct {
	Index int // in the list, from 0
	Err   error
}

func (e *RuleError) Error() string { return fmt.Sprintf("rule %d: %v", e.Index+1, e.Err) }
func (e *RuleError) Unwrap() error { return e.Err }

func completeRules(rules []Rule) (*ruleset, error) {
	set := &ruleset{}
	for i, r := range rules {
		c, err := r.complete()
		if err != nil {
			return nil, &RuleError{i, err}
		}
		for _, before := range set.rules {
			if before.Path == c.Path {
				return nil, &RuleError{i, fmt.Errorf("path %s: another rule has it already", c.Path)}
			}
		}
		set.rules = append(set.rules, c)
	}
	set.paths = len(set.rules) != 1 || !set.rules[0].all()
	return set, nil
}

// match finds the rule for a path, nil if there is none.
func (s *ruleset) match(path string) *Rule {
	for i := range s.rules {
		if s.rules[i].matches(path) {
			return &s.rules[i]
		}
	}
	return nil
}

// namespace gives the view on the namespace of a rule.
func (g *Guard) namespace(r *Rule) (*namespace, error) {
	name := r.Namespace
	if name == "" {
		name = g.client.Namespace()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.namespaces[name]; n != nil {
		return n, nil
	}
	c, err := g.client.In(name)
	if err != nil {
		return nil, err
	}
	n := &namespace{Client: c}
	g.namespaces[name] = n
	return n, nil
}

// Check asks the cluster whether the namespaces of the rules in force do what
// the rules want: *PolicyError if one does not, another error if the cluster
// does not answer.
func (g *Guard) Check(ctx context.Context) error { return g.check(ctx, g.rules.Load()) }

// CheckRules is Check for rules that are not in force yet.
func (g *Guard) CheckRules(ctx context.Context, rules []Rule) error {
	set, err := completeRules(rules)
	if err != nil {
		return err
	}
	return g.check(ctx, set)
}

func (g *Guard) check(ctx context.Context, set *ruleset) error {
	replays := map[*namespace]bool{}
	var order []*namespace
	for i := range set.rules {
		n, err := g.namespace(&set.rules[i])
		if err != nil {
			return &RuleError{i, err}
		}
		if _, known := replays[n]; !known {
			order = append(order, n)
		}
		replays[n] = replays[n] || set.rules[i].OnDuplicate != Reject
	}
	for _, n := range order {
		if err := n.refresh(ctx, replays[n]); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns when everything is settled that goes on after its answer, or
// when ctx ends. Call it when no more requests come.
func (g *Guard) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); g.alive.Wait() }()
	select {
	case <-done:
		g.send.closeIdle()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Middleware guards next. Requests that no rule is for, and methods that a rule
// does not guard, pass through. It has the type of gorilla/mux's middleware.
//
// Of a guarded request next sees a body that is in memory, and a context that
// does not end when the caller hangs up; it ends when the claim is lost. The
// answer of next decides what becomes of the key, by the rule's table; a panic
// leaves it uncertain.
func (g *Guard) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, next, next, true)
	})
}
