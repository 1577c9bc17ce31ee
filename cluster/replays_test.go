package cluster

import (
	"fmt"
	"testing"

	"github.com/onced/onced/fsm"
)

// counted waits until every running node counts so many replays of a key.
func (c *trio) counted(key string, want uint64) {
	c.t.Helper()
	for _, n := range c.up() {
		c.eventually(fmt.Sprintf("%d replays are counted", want), func() error {
			var got, version uint64
			n.fsm.read(func(m *fsm.Machine) {
				r, _ := m.Record("default", key)
				got, version = r.Replays, r.Version
			})
			if got != want {
				return fmt.Errorf("%s counts %d", n.ID(), got)
			}
			if version != 2 {
				c.t.Errorf("counting raised the version to %d", version)
			}
			return nil
		})
	}
}

func TestReplaysAreCountedOnceOverAllNodes(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	settled(t, c.nodes[0], "counted-key")
	c.agree()
	for i := range 20 {
		decide(t, c.nodes[i%3], reserveCmd("counted-key"))
	}
	for i := range 10 { // and some that the log decides
		list := []*fsm.Command{reserveCmd(fmt.Sprintf("beside-%06d", i)), reserveCmd("counted-key")}
		if d, err := c.nodes[i%3].Decide(t.Context(), list, 0); err != nil || d.Local || d.Results[1].Outcome != fsm.OutcomeReplayed {
			t.Fatalf("%+v %v", d, err)
		}
	}
	c.counted("counted-key", 30)
	c.agree()
}

// TestReplaysOfALeavingNodeAreCounted has a follower, and then the leader, stop
// in good order right after they served replays.
func TestReplaysOfALeavingNodeAreCounted(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), nil)
	settled(t, c.nodes[0], "counted-key")
	c.agree()
	var served uint64
	for _, which := range []func() int{c.follower, c.leader} {
		i := which()
		for range 7 {
			decide(t, c.nodes[i], reserveCmd("counted-key"))
			served++
		}
		c.stop(i)
		c.counted("counted-key", served)
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
		c.waitReady()
	}
}

// TestOldestCountsGoFirst holds that a flush adds a part of many counts, those
// that wait longest, and that none waits for ever.
func TestOldestCountsGoFirst(t *testing.T) {
	key := func(i int) replayKey { return replayKey{"default", fmt.Sprintf("key-%06d", i), 1} }
	c := newReplayCounter()
	for i := range 10_000 {
		c.add(key(i), 1, int64(i))
	}
	c.add(key(0), 4, 5) // the same key: no second place
	due := c.due()
	if due != 2_500 {
		t.Errorf("%d of 10,000 keys are due", due)
	}
	for next := 0; next < due; {
		counts := c.take(min(due-next, maxReplayBatch))
		for _, x := range counts {
			if x.Key != key(next).key {
				t.Fatalf("%s comes in the place of %s", x.Key, key(next).key)
			}
			next++
		}
	}
	c.add(key(0), 1, 10_000)
	if c.due() != 7_501/replayShare {
		t.Errorf("%d are due then", c.due())
	}
	rest := c.take(maxReplayKeys)
	if last := rest[len(rest)-1]; len(rest) != 7_501 || last.Key != key(0).key || last.Count != 1 {
		t.Errorf("%d are left, the last %v", len(rest), last)
	}
	if c.due() != maxReplayBatch || len(c.take(1)) != 0 || len(c.counts) != 0 {
		t.Error("something is left")
	}
	for i := range maxReplayKeys + 5 {
		c.add(key(i), 1, 1)
	}
	if got := len(c.take(2 * maxReplayKeys)); got != maxReplayKeys {
		t.Errorf("%d keys wait", got)
	}
}
