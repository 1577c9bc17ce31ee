package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
)

// A node that was away is not ready before it has applied what the leader had
// when it was first heard: until then its memory is that of its last stop (R11).
func TestNotReadyUntilCaughtUp(t *testing.T) {
	t.Parallel()
	disks := map[string]*memoryDisk{"n1": newMemoryDisk(), "n2": newMemoryDisk(), "n3": newMemoryDisk()}
	gates := map[string]*gate{"n1": {}, "n2": {}, "n3": {}}
	c := newTrio(t, 3, "", func(cfg *Config) {
		cfg.disk, cfg.diskStall = disks[cfg.NodeID], time.Hour
		g := gates[cfg.NodeID]
		cfg.wrapLogs = func(s raft.LogStore) raft.LogStore { return gatedLogs{s, g} }
	})
	away := c.follower()
	c.crash(away)
	c.fill("away", 16)
	g := gates[c.members[away].ID]
	g.shut()
	t.Cleanup(g.open)
	if err := c.start(away); err != nil {
		t.Fatal(err)
	}
	n := c.nodes[away]
	c.eventually("it has heard the leader", func() error {
		if n.Leader() == "" || n.target.Load() == 0 || g.held.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	caughtUp := true
	for _, k := range n.Ready() {
		if k.Name == "caughtUp" {
			caughtUp = k.OK
		}
	}
	n.fsm.read(func(m *fsm.Machine) {
		if _, ok := m.Record("default", "away-000015"); ok || m.Index() >= n.target.Load() {
			t.Error("the test holds nothing back")
		}
	})
	if caughtUp {
		t.Errorf("ready at index %d, the leader was at %d", n.fsm.index(), n.target.Load())
	}
	g.open()
	c.waitReady()
	c.holds(n, "away", 16)
}
