package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// TestEntriesWaitForAnUnreachableFollower holds that a follower that was down
// gets entries as soon as it is back: raft must not see its absence as a row of
// failures, because it would go on pausing for up to 10 s.
func TestEntriesWaitForAnUnreachableFollower(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), nil)
	leader, down := c.nodes[c.leader()], c.follower()
	c.crash(down)
	r := leader.raft.Load()
	args := func() *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{ // follows an entry that nobody has: refused, harmless
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.ID()), Addr: []byte(leader.cfg.PeerAdvertise)},
			Term:      r.CurrentTerm(), PrevLogEntry: 1 << 40, PrevLogTerm: r.CurrentTerm(),
		}
	}
	id, addr := raft.ServerID(c.members[down].ID), raft.ServerAddress(c.members[down].Address)
	heartbeat := args()
	heartbeat.PrevLogEntry, heartbeat.PrevLogTerm = 0, 0
	c.untilUnreachable(leader, id, addr, heartbeat)
	done := make(chan error, 1)
	go func() {
		done <- leader.net.trans.AppendEntries(id, addr, args(), &raft.AppendEntriesResponse{})
	}()
	for range 20 { // writes go on without it
		settled(t, leader, "meanwhile-"+randomHex(leader.cfg.Rand, 8))
	}
	if err := c.start(down); err != nil {
		t.Fatal(err)
	}
	c.waitReady()
	if err := <-done; err != nil {
		t.Errorf("entries for a node that is back: %v", err)
	}
	c.agree()
}

// TestEntriesDoNotOutwaitTheLeadership ends the wait when the node no longer
// leads.
func TestEntriesDoNotOutwaitTheLeadership(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	leader := c.leader()
	r := c.nodes[leader].raft.Load()
	term := r.CurrentTerm()
	for i := range c.nodes {
		if i != leader {
			c.crash(i)
		}
	}
	args := &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 1 << 40}
	c.untilUnreachable(c.nodes[leader], "n9", raft.ServerAddress(c.members[(leader+1)%3].Address), args)
}

// untilUnreachable calls a node that is down until the call says so: what was
// under way when it went down ends with other errors.
func (c *trio) untilUnreachable(from *Node, id raft.ServerID, addr raft.ServerAddress, args *raft.AppendEntriesRequest) {
	c.t.Helper()
	c.eventually("the node cannot be reached", func() error {
		err := from.net.trans.AppendEntries(id, addr, args, &raft.AppendEntriesResponse{})
		var gone *unreachableError
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("the call gave: %w", err)
	})
}
