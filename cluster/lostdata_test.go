package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// TestB09_EmptiedLogIsRefused empties raft.db on two of three nodes: bbolt
// opens it as a new database, and two nodes without a memory would elect one of
// them and lose all that was acknowledged (hashicorp/raft#122, raft-traps 0.9).
func TestB09_EmptiedLogIsRefused(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), nil)
	settled(t, c.nodes[0], "acknowledged")
	c.agree()
	for i := range c.nodes {
		c.stop(i)
	}
	for _, i := range []int{0, 1} {
		db := filepath.Join(c.dir, c.members[i].ID, raftFile)
		if err := os.Truncate(db, 0); err != nil {
			t.Fatal(err)
		}
		c.refusedStart(i, "Put the old disk back")
	}
	// A quorum of whole disks is enough to go on.
	if err := os.RemoveAll(filepath.Join(c.dir, c.members[0].ID)); err != nil {
		t.Fatal(err)
	}
	if err := c.start(2); err != nil {
		t.Fatal(err)
	}
	c.refusedStart(0, "n1 was a member of this cluster with other data. Put the old disk back, or remove n1 and add the machine under a new id.")
}

// refusedStart starts a node that must refuse with exit code 78 and a sentence.
func (c *trio) refusedStart(i int, sentence string) {
	c.t.Helper()
	err := c.start(i)
	var h *HaltError
	if !errors.As(err, &h) || h.ExitCode != ExitRefused || !strings.Contains(h.Error(), sentence) {
		c.t.Fatalf("start of %s: %v, want exit code %d and %q", c.members[i].ID, err, ExitRefused, sentence)
	}
}

// TestB23_LogIsSynced holds that raft.db is opened so that every commit reaches
// the disk before it is acknowledged (etcd#14370); the power cuts of the chaos
// suite show the effect.
func TestB23_LogIsSynced(t *testing.T) {
	t.Parallel()
	o := boltOptions("raft.db")
	if o.NoSync || o.BoltOptions.NoSync || o.BoltOptions.NoGrowSync {
		t.Errorf("raft.db is not synced: %+v %+v", o, o.BoltOptions)
	}
	if !o.BoltOptions.NoFreelistSync || o.BoltOptions.FreelistType != bbolt.FreelistMapType {
		t.Error("the free list is synced, or no map: commits after a truncation take ten times as long")
	}
	// A segment of the wal syncs, and says so when it cannot.
	f, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	if err := (walFile{f}).Sync(); err != nil {
		t.Error(err)
	}
	f.Close()
	if err := (walFile{f}).Sync(); err == nil {
		t.Error("a segment was not synced, and nobody is told")
	}
}

// TestARemovedNodeStops removes the leader: it notices, and ends with a
// sentence instead of living on without a say (raft-traps R30); the others go on.
func TestARemovedNodeStops(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	gone := c.leader()
	n := c.nodes[gone]
	if err := n.raft.Load().RemoveServer(raft.ServerID(n.ID()), 0, time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	h := <-c.halts
	if h.ExitCode != ExitRefused || !strings.Contains(h.Error(), "was removed from the cluster") {
		t.Errorf("%d: %v", h.ExitCode, h)
	}
	settled(t, c.nodes[(gone+1)%3], "after-the-removal")
}
