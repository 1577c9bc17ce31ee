package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onced/onced/client"
)

const (
	// policyAge is how old what is known of a namespace may get.
	policyAge = 30 * time.Second
	// usualLimit is a namespace's maxResponseBytes as long as it is not known.
	usualLimit = 64 << 10
)

// namespace is a view of one, with what is known of its policy. What is known
// may be a little old: then an answer is recorded without its body, or not as
// large as it could be, and no more harm is done.
type namespace struct {
	*client.Client

	mu     sync.Mutex // guards all below
	limit  int64      // maxResponseBytes; 0: not known
	asked  time.Time
	asking bool
}

// maxResponse gives what the namespace takes, and has it asked for again when
// that is old. started runs a function beside the caller.
func (n *namespace) maxResponse(started func(func())) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asking && time.Since(n.asked) > policyAge {
		n.asking = true
		started(func() {
			ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
			defer cancel()
			_ = n.refresh(ctx, false)
		})
	}
	if n.limit == 0 {
		return usualLimit
	}
	return n.limit
}

// refresh asks for the policy. With replays, one that refuses to replay is an
// error that names the command to set it.
func (n *namespace) refresh(ctx context.Context, replays bool) error {
	ns, err := n.GetNamespace(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asking, n.asked = false, time.Now()
	if err != nil {
		if errors.Is(err, client.ErrNamespaceNotFound) {
			return &PolicyError{n.Namespace(), "does not exist", "onced ns set " + n.Namespace() + " --preset gateway"}
		}
		return fmt.Errorf("namespace %s: %w", n.Namespace(), err)
	}
	if ns.Policy.MaxResponseBytes != nil && *ns.Policy.MaxResponseBytes > 0 {
		n.limit = *ns.Policy.MaxResponseBytes
	}
	if replays && (ns.Policy.OnDuplicate == nil || *ns.Policy.OnDuplicate != "replay") {
		return &PolicyError{
			n.Namespace(), "rejects duplicates, so that nothing can be replayed from it (on-duplicate)",
			"onced ns set " + n.Namespace() + " --on-duplicate replay",
		}
	}
	return nil
}

// PolicyError is a namespace that does not do what a rule wants of it. Command
// is what mends it.
type PolicyError struct {
	Namespace string
	Problem   string
	Command   string
}

func (e *PolicyError) Error() string {
	return "namespace " + e.Namespace + " " + e.Problem + "; set it with: " + e.Command
}
