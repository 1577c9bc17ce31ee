package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
)

// TestNoReplayFromAnOldDisk starts a node alone, with a snapshot that has an
// outcome. Until it has heard log time it cannot tell whether the outcome has
// expired, or the key has begun a new life, and must not replay it. A chaos run
// found an outcome replayed 31 s after its end, when the key had another (seed
// 504, disk).
func TestNoReplayFromAnOldDisk(t *testing.T) {
	t.Parallel()
	disks := map[string]*memoryDisk{"n1": newMemoryDisk(), "n2": newMemoryDisk(), "n3": newMemoryDisk()}
	c := newTrio(t, 3, "", func(cfg *Config) { cfg.disk = disks[cfg.NodeID] })
	old := c.follower()
	settled(t, c.nodes[old], "kept-on-disk")
	c.eventually("it has applied the outcome", func() error {
		if d := c.nodes[old].localAnswer([]*fsm.Command{reserveCmd("kept-on-disk")}); d == nil {
			return errors.New("not yet")
		}
		return nil
	})
	c.eventually("a snapshot is taken", func() error {
		if err := c.nodes[old].raft.Load().Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			return err
		}
		return nil
	})
	for i := range c.nodes {
		c.crash(i)
	}
	if err := c.start(old); err != nil {
		t.Fatal(err)
	}
	n := c.nodes[old]
	n.fsm.read(func(m *fsm.Machine) {
		if r, ok := m.Record("default", "kept-on-disk"); !ok || !r.Settled() {
			t.Fatal("the snapshot has no outcome: the test shows nothing")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if d, err := n.Decide(ctx, []*fsm.Command{reserveCmd("kept-on-disk")}, 0); err == nil {
		t.Errorf("alone since its start, it answered %v as of %d", d.Results[0].Outcome, d.Time)
	}
	for i := range c.nodes {
		if i != old {
			if err := c.start(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.waitReady()
	if r, d := decide(t, n, reserveCmd("kept-on-disk")); r.Outcome != fsm.OutcomeReplayed || !d.Local {
		t.Errorf("with the others: %v %s, from memory %v", r.Outcome, r.Code, d.Local)
	}
}
