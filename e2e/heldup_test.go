package e2e

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
)

// TestHeldUpLog: what comes while the log stands still is put together: 64
// reserves then cost at most two entries.
func TestHeldUpLog(t *testing.T) {
	t.Parallel()
	// A leader that puts up with silent followers for 1.5 s.
	c := startTrio(t, "--raft-multiplier", "10")
	for try := 1; ; try++ {
		leader := c.leader()
		before := c.must(201, c.call(leader, "default", "reserve", map[string]any{"key": fmt.Sprintf("held-up-first-%d", try)})).index()
		commands := c.metric(leader, "onced_log_commands_total")
		for i := range 3 {
			if i != leader {
				c.proc[i].signal(syscall.SIGSTOP)
			}
		}
		var answers [64]*answer
		var group sync.WaitGroup
		for k := range answers {
			group.Go(func() {
				answers[k] = c.call(leader, "default", "reserve", map[string]any{"key": fmt.Sprintf("held-up-%d-%04d", try, k), "lease": "10m"})
			})
		}
		// One entry is under way with what came first; the others wait behind it.
		eventually(t, "64 reserves are under way", func() bool {
			return c.metric(leader, "onced_log_commands_total")-commands+c.metric(leader, "onced_waiting_commands") >= 64 ||
				c.metric(leader, "onced_leader") == 0
		})
		for i := range 3 {
			c.proc[i].signal(syscall.SIGCONT)
		}
		group.Wait()
		highest, indexes := uint64(0), map[uint64]int{}
		for k, a := range answers {
			if a.status != 201 || a.Attempt != 1 {
				t.Errorf("reserve %d: %s", k, a)
			}
			highest = max(highest, a.index())
			indexes[a.index()]++
		}
		t.Logf("64 reserves at %v, before them %d", indexes, before)
		// An election, or a sweep of the leader's own, may have fallen in: try
		// again then.
		if highest <= before+2 {
			return
		}
		if try == 3 {
			t.Errorf("64 reserves that waited raised the index by %d", highest-before)
			return
		}
		c.awaitReady(0, 1, 2)
	}
}
