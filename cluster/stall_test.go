package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestB04_HungDiskOfTheLeader stalls the leader's log under load: the others
// elect another and go on; once the disk is back, the node follows and agrees.
// hashicorp/raft#503: without the silence the heartbeats of the stuck leader
// hold the cluster for as long as the disk hangs.
func TestB04_HungDiskOfTheLeader(t *testing.T) {
	t.Parallel()
	gates := map[string]*gate{"n1": {}, "n2": {}, "n3": {}}
	c := newTrio(t, 3, t.TempDir(), func(cfg *Config) {
		g := gates[cfg.NodeID]
		cfg.wrapLogs = func(s raft.LogStore) raft.LogStore { return gatedLogs{s, g} }
	})
	stuck := c.leader()
	g := gates[c.nodes[stuck].ID()]
	t.Cleanup(g.open)
	settled(t, c.nodes[stuck], "before-the-hang")
	began := time.Now()
	g.shut()
	other := c.nodes[(stuck+1)%3]
	settled(t, other, "during-the-hang") // finds the new leader within its deadline
	t.Logf("acknowledged elsewhere %v after the disk hung", time.Since(began).Round(time.Millisecond))
	g.open()
	c.eventually("the stuck node follows", func() error {
		if c.nodes[stuck].isLeader() && other.isLeader() {
			return errors.New("two leaders")
		}
		if c.nodes[stuck].Leader() != other.Leader() {
			return errors.New("it has not heard of the new leader")
		}
		return nil
	})
	c.waitReady()
	c.agree()
	if r, _ := decide(t, c.nodes[stuck], reserveCmd("during-the-hang")); r.Record.Status.String() != "STATUS_COMMITTED" {
		t.Errorf("the stuck node says %v %s", r.Outcome, r.Code)
	}
}
