package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// B06: the leader's snapshots are gone when a follower needs one. The leader
// takes another, and the follower is back while writes go on
// (hashicorp/raft#522).
func TestB06_LeaderLostItsSnapshots(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), oftenSnapshots)
	behind := c.follower()
	c.crash(behind)
	for round := range 8 {
		c.fill(fmt.Sprintf("away%d", round), 80)
	}
	leads := c.leader()
	c.eventually("the leader no longer has the entries that the follower needs", func() error {
		if first, err := c.nodes[leads].store.logs.FirstIndex(); err != nil || first < 60 {
			return fmt.Errorf("the log begins at %d: %w", first, err)
		}
		return nil
	})
	c.eventually("they are removed", func() error { // one may just be written there
		return os.RemoveAll(filepath.Join(c.dir, c.members[leads].ID, snapshotsDir))
	})
	if err := c.start(behind); err != nil {
		t.Fatal(err)
	}
	for round := 0; ; round++ {
		c.fill(fmt.Sprintf("after%d", round), 80)
		if i := c.nodes[behind].fsm.index(); i > 0 && c.nodes[leads].fsm.index()-i < 1000 {
			break
		}
		if round == 60 {
			t.Fatalf("the follower has applied %d, the leader %d", c.nodes[behind].fsm.index(), c.nodes[leads].fsm.index())
		}
	}
	c.waitReady()
	c.agree()
	c.holds(c.nodes[behind], "away7", 80)
	select {
	case h := <-c.halts:
		t.Errorf("halted: %v", h)
	default:
	}
}

// B21: raft.db grows with what is live, not with what was written (consul#21875,
// vault#11072).
func TestB21_TheLogFileDoesNotGrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, told := mustStorage(t, dir)
	const live, batch, all = 3000, 500, 60_000
	var once int64
	for first := uint64(1); first < all; first += batch {
		fill(t, s.logs, first, first+batch-1)
		if first%live == 1 && first > live {
			if once == 0 {
				once, _ = s.sizes()
			}
			if err := s.logs.DeleteRange(1, first-live); err != nil {
				t.Fatal(err)
			}
		}
	}
	size, _ := s.sizes()
	t.Logf("%d bytes after %d entries, %d after %d", once, 2*live, size, all)
	if size > 3*once {
		t.Errorf("raft.db has %d bytes after %d entries, and had %d with as many live ones after %d", size, all, once, 2*live)
	}
	if errs := told.all(); len(errs) != 0 {
		t.Error(errs)
	}
}

// noRoom is a store of settings on a full disk.
type noRoom struct{ raft.StableStore }

func (noRoom) Set(key, _ []byte) error { return fmt.Errorf("write %s: %w", key, syscall.ENOSPC) }

// raft panics when it cannot store its term: that is told as a disk fault before.
// A vote that finds no room is no vote, and the node goes on (R22).
func TestNoRoomForTheTermEndsTheNode(t *testing.T) {
	t.Parallel()
	d := &told{}
	s := &stableStore{inner: noRoom{}, guard: storeGuard{onDamage: d.add}}
	for _, key := range []string{"LastVoteTerm", "LastVoteCand"} {
		if err := s.Set([]byte(key), []byte("x")); !errors.Is(err, syscall.ENOSPC) || len(d.all()) != 0 {
			t.Errorf("%s: %v, told %v", key, err, d.all())
		}
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 7); !errors.Is(err, syscall.ENOSPC) || len(d.all()) != 1 {
		t.Fatalf("%v, told %v", err, d.all())
	}
	wantHalt(t, d.all()[0], ExitStalled, "CurrentTerm")
}
