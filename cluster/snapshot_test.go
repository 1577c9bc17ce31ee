package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
)

// oftenSnapshots makes a node take snapshots every few entries.
func oftenSnapshots(cfg *Config) {
	cfg.SnapshotThreshold = 50
	cfg.snapshotEvery = 20 * time.Millisecond
}

// fill settles keys through all running nodes, from several clients at once.
func (c *trio) fill(name string, keys int) {
	c.t.Helper()
	up := c.up()
	var done sync.WaitGroup
	for w := range 8 {
		done.Add(1)
		go func() {
			defer done.Done()
			for k := w; k < keys; k += 8 {
				settled(c.t, up[k%len(up)], fmt.Sprintf("%s-%06d", name, k))
			}
		}()
	}
	done.Wait()
}

// holds checks that a node has every key that fill settled.
func (c *trio) holds(n *Node, name string, keys int) {
	c.t.Helper()
	n.fsm.read(func(m *fsm.Machine) {
		for k := range keys {
			if r, ok := m.Record("default", fmt.Sprintf("%s-%06d", name, k)); !ok || r.Status != fsm.Committed {
				c.t.Errorf("%s lost key %d of %s", n.ID(), k, name)
				return
			}
		}
	})
}

// snapshotsOf gives the finished snapshots of a node, newest first.
func (c *trio) snapshotsOf(i int) []string {
	c.t.Helper()
	all, err := filepath.Glob(filepath.Join(c.dir, c.members[i].ID, "snapshots", "*", "state.bin"))
	if err != nil {
		c.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(path string) bool {
		return strings.HasSuffix(filepath.Dir(path), oldSnapshotParts)
	})
	sort.Slice(all, func(a, b int) bool {
		var term, ai, bi uint64
		_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(all[a])), "%d-%d-", &term, &ai)
		_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(all[b])), "%d-%d-", &term, &bi)
		return ai > bi
	})
	return all
}

// TestB18_SnapshotsUnderFullLoad takes snapshots all the time while clients
// write, restarts every node on what it has kept, and loses nothing.
func TestB18_B67_SnapshotsUnderFullLoad(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), oftenSnapshots)
	const keys = 600
	c.fill("loaded", keys)
	c.eventually("every node has taken snapshots", func() error {
		for i := range c.nodes {
			if len(c.snapshotsOf(i)) < 2 {
				return fmt.Errorf("n%d has %d", i+1, len(c.snapshotsOf(i)))
			}
		}
		return nil
	})
	for i := range c.nodes {
		c.stop(i)
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
		c.waitReady()
		c.holds(c.nodes[i], "loaded", keys)
	}
	c.agree()
}

// TestAFarBehindNodeGetsASnapshot keeps a node down for more entries than the
// others keep in their logs.
func TestAFarBehindNodeGetsASnapshot(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), oftenSnapshots)
	behind := c.follower()
	c.crash(behind)
	for round := range 8 {
		c.fill(fmt.Sprintf("away%d", round), 80)
	}
	c.eventually("the others no longer have the entries that it needs", func() error {
		first, err := c.up()[0].store.logs.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		if first < 60 {
			return fmt.Errorf("the log begins at %d", first)
		}
		return nil
	})
	if err := c.start(behind); err != nil {
		t.Fatal(err)
	}
	c.waitReady()
	c.agree()
	c.holds(c.nodes[behind], "away7", 80)
	if c.nodes[behind].fsm.index() == 0 {
		t.Error("nothing applied")
	}
}

// TestDamagedNewestSnapshot starts a node whose newest snapshot is flipped, cut,
// emptied or gone: it takes the older one and the log behind it. Source:
// raft-traps 0.10 (log not found) and hashicorp/raft#85.
func TestDamagedNewestSnapshot(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"flipped": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 0x10
			return os.WriteFile(path, b, 0o600)
		},
		"cut":     func(path string) error { return os.Truncate(path, 100) },
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"described wrongly": func(path string) error {
			meta := filepath.Join(filepath.Dir(path), snapshotMeta)
			b, err := os.ReadFile(meta)
			if err != nil {
				return err
			}
			// The member has another id: raft would wait for it for ever.
			return os.WriteFile(meta, bytes.Replace(b, []byte(`"ID":"n1"`), []byte(`"ID":"n3"`), 1), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, 1, t.TempDir(), oftenSnapshots)
			rounds := 0
			for ; len(c.snapshotsOf(0)) < 2; rounds++ {
				if rounds == 200 {
					t.Fatal("no two snapshots")
				}
				c.fill(fmt.Sprintf("kept%d", rounds), 40)
			}
			c.stop(0)
			if err := damage(c.snapshotsOf(0)[0]); err != nil {
				t.Fatal(err)
			}
			if err := c.start(0); err != nil {
				t.Fatalf("start with the newest snapshot %s: %v", name, err)
			}
			c.waitReady()
			for k := range rounds {
				c.holds(c.nodes[0], fmt.Sprintf("kept%d", k), 40)
			}
		})
	}
}
