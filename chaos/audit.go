package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// auditClient is the number of the auditor in the history.
const auditClient = 1_000_000

// audit asks every node for every outcome that was acknowledged in namespaces
// that keep them through the run, as a duplicate would, and writes the answers
// into the history: the checks compare them. newest limits it to the last ones
// acknowledged; 0 is all. It gives how many it asked for. The error is a node
// that did not answer in time.
func audit(ctx context.Context, c *Caller, nodes []*Node, rng *rand.Rand, newest int) (int, error) {
	requests := map[string]string{}
	var keys []string
	for _, o := range c.history.Ops() {
		if policyOf(o.NS).TTL < longKept {
			continue
		}
		if o.Kind == Reserve && requests[o.Key] == "" {
			requests[o.Key] = o.Request
		}
		if o.acknowledged() && o.Answer.Record.settled() {
			keys = append(keys, o.Key)
		}
	}
	if newest > 0 {
		keys = keys[max(0, len(keys)-newest):]
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(24)
	for _, key := range keys {
		attempts := make([]string, len(nodes))
		for i := range attempts {
			attempts[i] = newAttempt(rng)
		}
		group.Go(func() error {
			for i, n := range nodes {
				if err := auditOne(ctx, c, n, key, requests[key], attempts[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return len(keys), group.Wait()
}

func auditOne(ctx context.Context, c *Caller, n *Node, key, request, attempt string) error {
	for tries := 0; ; tries++ {
		o := &Op{Client: auditClient, NS: "orders", Key: key, Kind: Reserve, Request: request, AttemptID: attempt}
		err := c.Do(ctx, n, o)
		switch {
		case err == nil && o.Fate == Known:
			return nil
		case tries == 20:
			return fmt.Errorf("%s did not answer for %s: %w", n.ID, key, errors.Join(err, errors.New(o.Cause)))
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// hashes keeps which state each node had at which index, as ever seen.
type hashes struct {
	hashesMu sync.Mutex // guards both
	byIndex  map[uint64]map[string]string
	differ   []string
}

func newHashes() *hashes { return &hashes{byIndex: map[uint64]map[string]string{}} }

// look asks every node for its own state.
func (h *hashes) look(ctx context.Context, c *Nodes) {
	for _, n := range c.All {
		if !n.running() {
			continue
		}
		s, err := c.status(ctx, n)
		if err != nil {
			continue
		}
		for _, x := range s.Nodes {
			if x.StateHash != "" {
				h.add(x.ID, x.AppliedIndex, x.StateHash)
			}
		}
	}
}

func (h *hashes) add(node string, index uint64, hash string) {
	h.hashesMu.Lock()
	defer h.hashesMu.Unlock()
	at := h.byIndex[index]
	if at == nil {
		at = map[string]string{}
		h.byIndex[index] = at
	}
	for other, its := range at {
		if its != hash && len(h.differ) < 10 {
			h.differ = append(h.differ, fmt.Sprintf("at index %d the state of %s is %s, that of %s is %s", index, node, hash, other, its))
		}
	}
	at[node] = hash
}

// compared counts the indexes at which two nodes or more were seen.
func (h *hashes) compared() (n int, differ []string) {
	h.hashesMu.Lock()
	defer h.hashesMu.Unlock()
	for at := range maps.Values(h.byIndex) {
		if len(at) > 1 {
			n++
		}
	}
	return n, h.differ
}

// watch looks every 100 ms until ctx ends.
func (h *hashes) watch(ctx context.Context, c *Nodes) {
	for ctx.Err() == nil {
		h.look(ctx, c)
		_ = pause(ctx, 100*time.Millisecond)
	}
}

// converge waits until all nodes have been seen at one index.
func (h *hashes) converge(ctx context.Context, c *Nodes) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		h.look(ctx, c)
		h.hashesMu.Lock()
		defer h.hashesMu.Unlock()
		newest := uint64(0)
		for i := range h.byIndex {
			newest = max(newest, i)
		}
		return len(h.byIndex[newest]) == len(c.All), nil
	})
	if err != nil {
		return errors.New("the nodes did not come to one index within 30 s")
	}
	return nil
}
