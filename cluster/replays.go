package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

const (
	flushReplaysEvery = time.Second
	// Of the keys whose replays wait to be added, one in replayShare goes at a
	// flush, but at least maxReplayBatch: a key that is asked again and again is
	// added once with all its replays, and not each second with a few. With
	// 10,000 such keys that was a quarter of what replays cost a cluster.
	replayShare     = 4
	maxReplayBatch  = 1_000   // keys in one command
	maxReplayKeys   = 100_000 // keys that wait; what is over is not counted
	lastReplaysTime = 500 * time.Millisecond
)

// replayCounter counts the replays that this node served, until they are added
// through the log.
type replayCounter struct {
	mu      sync.Mutex
	counts  map[replayKey]*fsmpb.ReplayCount
	waiting []replayKey // the keys of counts, longest waiting first

	adding   chan struct{}      // holds a value while counts are added; it guards:
	batch    *fsmpb.ReplayBatch // of unknown fate
	sequence uint64             // of the last batch; this node's machine may be behind it
}

type replayKey struct {
	namespace, key string
	token          uint64
}

func newReplayCounter() *replayCounter {
	return &replayCounter{counts: map[replayKey]*fsmpb.ReplayCount{}, adding: make(chan struct{}, 1)}
}

// served counts the replays of a decision that is being answered here.
func (c *replayCounter) served(d *fsm.Decision) {
	for i := range d.Results {
		r := &d.Results[i]
		if r.Outcome != fsm.OutcomeReplayed || r.Code != "" || r.Record == nil {
			continue
		}
		c.add(replayKey{r.Record.Namespace, r.Record.Key, r.Record.Token}, 1, int64(d.Time))
	}
}

func (c *replayCounter) add(k replayKey, count uint64, lastUs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.counts[k]
	if x == nil {
		if len(c.counts) >= maxReplayKeys {
			return
		}
		x = &fsmpb.ReplayCount{Namespace: k.namespace, Key: k.key, Token: k.token}
		c.counts[k] = x
		c.waiting = append(c.waiting, k)
	}
	x.Count += count
	x.LastUs = max(x.LastUs, lastUs)
}

// due gives how many keys one flush adds.
func (c *replayCounter) due() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(maxReplayBatch, len(c.waiting)/replayShare)
}

// take removes up to limit counts, those of the keys that wait longest.
func (c *replayCounter) take(limit int) (counts []*fsmpb.ReplayCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit = min(limit, len(c.waiting))
	for _, k := range c.waiting[:limit] {
		counts = append(counts, c.counts[k])
		delete(c.counts, k)
	}
	if c.waiting = c.waiting[limit:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	return counts
}

// flushReplays adds the counted replays through the log, about once a second.
func (n *Node) flushReplays(ctx context.Context) {
	for !sleep(ctx, flushReplaysEvery) {
		n.addReplays(ctx, n.count.due())
	}
}

// lastReplays adds all that is counted before this node stops.
func (n *Node) lastReplays(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastReplaysTime)
	defer cancel()
	n.addReplays(ctx, maxReplayKeys)
}

// addReplays adds the counts of up to limit keys, in batches numbered per node:
// a batch of unknown fate is sent again under its number, so that none counts
// twice.
func (n *Node) addReplays(ctx context.Context, limit int) {
	c := n.count
	select {
	case c.adding <- struct{}{}:
		defer func() { <-c.adding }()
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		if c.batch == nil {
			if !n.caughtUp.Load() {
				return // the last number of an earlier life is not known yet
			}
			counts := c.take(min(limit, maxReplayBatch))
			if len(counts) == 0 {
				return
			}
			limit -= len(counts)
			c.sequence = max(c.sequence, n.replaySequence()) + 1
			c.batch = &fsmpb.ReplayBatch{NodeId: n.cfg.NodeID, Sequence: c.sequence, Counts: counts}
		}
		call, cancel := context.WithTimeout(ctx, defaultBudget)
		_, err := n.decide(call, []*fsm.Command{{Op: fsmpb.Op_OP_REPLAYS, Replays: c.batch}})
		cancel()
		if err != nil {
			return
		}
		c.batch = nil
	}
}

// replaySequence gives the number of the last batch that this node's machine
// has applied.
func (n *Node) replaySequence() (seq uint64) {
	n.fsm.read(func(m *fsm.Machine) { seq = m.ReplaySequence(n.cfg.NodeID) })
	return seq
}
