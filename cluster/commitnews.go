package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	commitQuiet = time.Millisecond // after an entry, without another one
	newsAge     = time.Second      // a follower not heard of for so long is left to raft
)

// commitNews tells followers what is committed when nothing else does. raft
// tells them with the next entry, or after CommitTimeout (25 to 50 ms): on an
// idle cluster a strong read through a follower, which waits until that node
// has applied an entry, would take as long.
//
// What is sent is the message that raft would send, without entries, and says
// no more than raft knows: that the follower has the leader's log up to an
// entry, which it has acknowledged in this term, and that a part of it, at
// most up to there, is committed. So it may come late, twice, or never.
type commitNews struct {
	wake chan struct{} // holds a value while there may be news

	mu     sync.Mutex
	seen   map[raft.ServerID]*followerLog
	behind bool // some follower had not acknowledged all that was committed
}

func newCommitNews() *commitNews {
	return &commitNews{wake: make(chan struct{}, 1), seen: map[raft.ServerID]*followerLog{}}
}

// look makes tellCommits see whether there is news.
func (c *commitNews) look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// followerLog is what a follower has acknowledged to this node as leader.
type followerLog struct {
	target raft.ServerAddress
	args   raft.AppendEntriesRequest // without entries, behind the last one that it has
	at     time.Time
	busy   bool // a message is under way
}

// acknowledged notes a call of raft's that a follower has answered with success.
func (c *commitNews) acknowledged(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.seen[id]
	if f == nil {
		f = &followerLog{}
		c.seen[id] = f
	}
	f.target, f.args, f.at = target, *args, time.Now()
	f.args.Entries = nil
	if n := len(args.Entries); n > 0 {
		f.args.PrevLogEntry, f.args.PrevLogTerm = args.Entries[n-1].Index, args.Entries[n-1].Term
		if c.behind {
			c.look()
		}
	}
}

// due gives the messages to send in term, to followers that have entries and
// have not been told that they are committed up to commit.
func (c *commitNews) due(term, commit uint64) map[raft.ServerID]*followerLog {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := map[raft.ServerID]*followerLog{}
	c.behind = false
	for id, f := range c.seen {
		if f.args.Term != term || time.Since(f.at) > newsAge {
			continue
		}
		known := min(commit, f.args.PrevLogEntry) // raft's follower would believe more
		c.behind = c.behind || known < commit
		if f.busy || known <= f.args.LeaderCommitIndex {
			continue
		}
		f.busy = true
		d := *f
		d.args.LeaderCommitIndex = known
		due[id] = &d
	}
	return due
}

// sent notes that a message has ended.
func (c *commitNews) sent(id raft.ServerID, d *followerLog, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.seen[id]
	f.busy = false
	if ok && f.args.Term == d.args.Term {
		f.args.LeaderCommitIndex = max(f.args.LeaderCommitIndex, d.args.LeaderCommitIndex)
	}
	if ok && d.args.LeaderCommitIndex < f.args.PrevLogEntry {
		c.look() // there may have been more since
	}
}

// tellCommits tells the followers what is committed once a little time has
// passed after an entry without another one, which would have told them.
func (n *Node) tellCommits(ctx context.Context) {
	r := n.raft.Load()
	for {
		select {
		case <-n.net.news.wake:
		case <-ctx.Done():
			return
		}
		proposed := n.entries.Load()
		if sleep(ctx, commitQuiet) {
			return
		}
		if n.entries.Load() != proposed {
			continue
		}
		// In this order: an index that a later leader committed is not this
		// term's to tell.
		commit, term := r.CommitIndex(), r.CurrentTerm()
		if r.State() != raft.Leader {
			continue
		}
		for id, d := range n.net.news.due(term, commit) {
			if !n.net.start(func() { n.net.trans.tell(id, d) }) {
				return
			}
		}
	}
}

// tell sends one message of commitNews. What the follower says to it is left to
// raft's own calls.
func (t safeTransport) tell(id raft.ServerID, d *followerLog) {
	err := errStalledDisk
	var resp raft.AppendEntriesResponse
	if t.n.stalls == nil || t.n.stalls.Load() == 0 {
		err = t.NetworkTransport.AppendEntries(id, d.target, &d.args, &resp)
	}
	t.n.news.sent(id, d, err == nil && resp.Success)
}
