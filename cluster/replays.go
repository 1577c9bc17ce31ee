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
	maxReplayBatch    = 1_000  // keys in one command
	maxReplayKeys     = 50_000 // keys counted between two flushes; what is over is not counted
)

// replayCounter counts the replays that this node served, until they are added
// through the log.
type replayCounter struct {
	mu     sync.Mutex
	counts map[replayKey]*fsmpb.ReplayCount
}

type replayKey struct {
	namespace, key string
	token          uint64
}

func newReplayCounter() *replayCounter {
	return &replayCounter{counts: map[replayKey]*fsmpb.ReplayCount{}}
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
	}
	x.Count += count
	x.LastUs = max(x.LastUs, lastUs)
}

// take removes up to limit counts.
func (c *replayCounter) take(limit int) (counts []*fsmpb.ReplayCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, x := range c.counts {
		if len(counts) == limit {
			break
		}
		counts = append(counts, x)
		delete(c.counts, k)
	}
	return counts
}

// flushReplays adds the counted replays through the log, about once a second,
// in batches numbered per node: a batch of unknown fate is sent again under its
// number, so that none counts twice.
func (n *Node) flushReplays(ctx context.Context) {
	var batch *fsmpb.ReplayBatch
	var sequence uint64 // of the last batch; this node's machine may be behind it
	for !sleep(ctx, flushReplaysEvery) {
		for ctx.Err() == nil {
			if batch == nil {
				if !n.caughtUp.Load() {
					break // the last number of an earlier life is not known yet
				}
				counts := n.count.take(maxReplayBatch)
				if len(counts) == 0 {
					break
				}
				sequence = max(sequence, n.replaySequence()) + 1
				batch = &fsmpb.ReplayBatch{NodeId: n.cfg.NodeID, Sequence: sequence, Counts: counts}
			}
			call, cancel := context.WithTimeout(ctx, defaultBudget)
			_, err := n.decide(call, []*fsm.Command{{Op: fsmpb.Op_OP_REPLAYS, Replays: batch}})
			cancel()
			if err != nil {
				break
			}
			batch = nil
		}
	}
}

// replaySequence gives the number of the last batch that this node's machine
// has applied.
func (n *Node) replaySequence() (seq uint64) {
	n.fsm.read(func(m *fsm.Machine) { seq = m.ReplaySequence(n.cfg.NodeID) })
	return seq
}
