package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
)

// TestFollowersHearOfACommitOnAnIdleCluster measures, in virtual time, how long
// a follower of an idle cluster is behind: less than raft's CommitTimeout, after
// which it would hear anyway, and so does a strong read through it.
func TestFollowersHearOfACommitOnAnIdleCluster(t *testing.T) {
	t.Parallel()
	calmSim(t, func(t *testing.T, s *sim) {
		x, others := s.leader()
		leader, follower := x.node, others[0].node
		timeout := leader.raftConfig().CommitTimeout
		for i := range 10 {
			time.Sleep(200 * time.Millisecond) // the node is idle
			_, d := decide(t, leader, reserveCmd("idle-key-"+string(rune('a'+i))))
			began := time.Now()
			if !follower.applied(t.Context(), d.Index) {
				t.Fatal("the follower does not apply")
			}
			if took := time.Since(began); took >= timeout {
				t.Errorf("a follower applied an entry %v after the leader had", took)
			}
			time.Sleep(200 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began = time.Now()
			_, _, err := follower.Read(ctx, fsm.ReadOptions{Strong: true}, func(*fsm.Machine, fsm.Time) {})
			cancel()
			if took := time.Since(began); err != nil || took >= timeout {
				t.Errorf("a strong read through a follower took %v: %v", took, err)
			}
		}
	})
}

func TestCommitNewsSaysNoMoreThanIsKnown(t *testing.T) {
	t.Parallel()
	acknowledged := func(c *commitNews, term, prev, commit uint64, entries ...uint64) {
		args := &raft.AppendEntriesRequest{Term: term, PrevLogEntry: prev, PrevLogTerm: 1, LeaderCommitIndex: commit}
		for _, i := range entries {
			args.Entries = append(args.Entries, &raft.Log{Index: i, Term: term})
		}
		c.acknowledged("n2", "n2:1", args)
	}
	for _, tt := range []struct {
		name         string
		term, commit uint64 // of the leader, now
		prev, told   uint64 // as the follower has acknowledged in term 3
		entries      []uint64
		want         uint64 // the commit index to tell; 0: nothing
	}{
		{"committed since", 3, 7, 6, 6, []uint64{7}, 7},
		{"told already", 3, 7, 7, 7, nil, 0},
		{"not committed yet", 3, 6, 6, 6, []uint64{7}, 0},
		{"a follower that is behind", 3, 90, 6, 5, []uint64{7, 8}, 8},
		{"of an earlier term", 4, 7, 6, 6, []uint64{7}, 0},
		{"an empty log", 3, 7, 0, 0, nil, 0},
	} {
		c := newCommitNews()
		acknowledged(c, 3, tt.prev, tt.told, tt.entries...)
		due := c.due(tt.term, tt.commit)
		d, ok := due["n2"]
		switch {
		case !ok && tt.want != 0, ok && d.args.LeaderCommitIndex != tt.want:
			t.Errorf("%s: %+v, want commit %d", tt.name, due, tt.want)
			continue
		case !ok:
			continue
		}
		if last := tt.prev + uint64(len(tt.entries)); d.args.PrevLogEntry != last || len(d.args.Entries) != 0 || d.args.Term != tt.term {
			t.Errorf("%s: follows %d in term %d with %d entries, want %d, %d, none", tt.name, d.args.PrevLogEntry, d.args.Term, len(d.args.Entries), last, tt.term)
		}
		if len(c.due(tt.term, tt.commit)) != 0 {
			t.Errorf("%s: a second message while the first is under way", tt.name)
		}
		c.sent("n2", d, true)
		if len(c.due(tt.term, tt.commit)) != 0 {
			t.Errorf("%s: told again", tt.name)
		}
	}
}
