package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// heldTrio is a cluster whose leader's log can be held up.
func heldTrio(t *testing.T) (c *trio, leader int, g *gate) {
	t.Helper()
	gates := map[string]*gate{"n1": {}, "n2": {}, "n3": {}}
	c = newTrio(t, 3, "", func(cfg *Config) {
		mine := gates[cfg.NodeID]
		cfg.diskStall = time.Hour // or the leader falls silent
		cfg.wrapLogs = func(s raft.LogStore) raft.LogStore { return gatedLogs{s, mine} }
	})
	leader = c.leader()
	g = gates[c.nodes[leader].ID()]
	t.Cleanup(g.open)
	return c, leader, g
}

// TestFollowersCoalesce has many clients ask a follower while the leader's log
// is held up: what waits goes to the leader in few messages.
func TestFollowersCoalesce(t *testing.T) {
	t.Parallel()
	c, _, g := heldTrio(t)
	f := c.nodes[c.follower()]
	settled(t, f, "before-coalescing")
	sent := f.forwarded.Load()
	g.shut()
	var asked sync.WaitGroup
	var begun atomic.Int64
	for i := range 200 {
		asked.Add(1)
		go func() {
			defer asked.Done()
			begun.Add(1)
			decide(t, f, reserveCmd(fmt.Sprintf("coalesced-%06d", i)))
		}()
	}
	c.eventually("all have asked, and the log is held up", func() error {
		if f.forwarded.Load() == sent || g.held.Load() == 0 || begun.Load() < 200 {
			return errors.New("not yet")
		}
		return nil
	})
	g.open()
	asked.Wait()
	if n := f.forwarded.Load() - sent; n > 60 {
		t.Errorf("200 commands took %d messages", n)
	}
}

// TestAStormOfOneKey sends 90 clients over all nodes to one key while the log
// is held up: the leader has one entry in flight, and the next takes the rest.
func TestAStormOfOneKey(t *testing.T) {
	t.Parallel()
	c, leader, g := heldTrio(t)
	n := c.nodes[leader]
	settled(t, n, "before-the-storm")
	entries := n.entries.Load()
	g.shut()
	var asked sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	var begun atomic.Int64
	for i := range 90 {
		asked.Add(1)
		go func() {
			defer asked.Done()
			begun.Add(1)
			r, _ := decide(t, c.nodes[i%3], reserveCmd("one-hot-key"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Outcome == fsm.OutcomeReserved:
				granted++
			case r.Code != idem.CodeInFlight:
				t.Errorf("%v %s", r.Outcome, r.Code)
			}
		}()
	}
	c.eventually("the storm waits at the leader", func() error {
		if h := g.held.Load(); h != 1 {
			return fmt.Errorf("%d writes are held", h)
		}
		if begun.Load() < 90 {
			return errors.New("it has not come yet")
		}
		return nil
	})
	if inFlight := n.entries.Load() - entries; inFlight != 1 {
		t.Errorf("%d entries are in flight", inFlight)
	}
	g.open()
	asked.Wait()
	if granted != 1 {
		t.Errorf("%d were granted", granted)
	}
	if took := n.entries.Load() - entries; took > 10 {
		t.Errorf("a storm of 90 took %d entries", took)
	}
}

// TestARelayedFenceIsAnEntry sends a reader and a duplicate to the leader in one
// message. The duplicate alone is answered from the leader's memory; a reader
// must not be, since a leader that has been deposed does not know it. A chaos run
// found it by the times that reads told (seed 11843, power).
func TestARelayedFenceIsAnEntry(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	leader, f := c.nodes[c.leader()], c.nodes[c.follower()]
	settled(t, leader, "relayed-duplicate")
	duplicate := func() *proposal { return newProposal(t.Context(), []*fsm.Command{reserveCmd("relayed-duplicate")}) }
	reader := func() *proposal { return newProposal(t.Context(), nil) }
	for name, c := range map[string]struct {
		batch []*proposal
		local bool
	}{
		"a duplicate alone":      {[]*proposal{duplicate()}, true},
		"a reader alone":         {[]*proposal{reader()}, false},
		"a reader behind it":     {[]*proposal{duplicate(), reader()}, false},
		"a reader in front":      {[]*proposal{reader(), duplicate()}, false},
		"among many of the same": {[]*proposal{duplicate(), duplicate(), reader(), duplicate()}, false},
	} {
		before := leader.local.Load()
		o := f.relay(t.Context(), c.batch)
		if o.fate != applied {
			t.Fatalf("%s: %v", name, o.err)
		}
		if local := leader.local.Load() != before; local != c.local {
			t.Errorf("%s: answered from memory: %v", name, local)
		}
	}
}
