package cluster

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

const (
	redialEvery   = 50 * time.Millisecond
	patientAtMost = 30 * time.Second // raft counts one failure for each
)

var errStalledDisk = errors.New("this node's disk does not answer: it says nothing as a leader")

// unreachableError is a raft connection that could not be opened: nothing of
// the call was sent.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// AppendEntries sends entries to a follower and, while the follower cannot be
// reached at all, keeps dialling instead of failing. raft doubles its pause
// with every failure, up to 10.24 s, and does not cut it short when the
// follower is back: heartbeats reach it, entries do not, and if its vote is
// needed for the quorum every write waits as long. The wait ends with the
// leadership. Heartbeats fail at once, as raft expects: their pauses are short.
//
// A leader whose disk does not answer is silent: its heartbeats would keep the
// others from electing one that works (hashicorp/raft#503). Should the disk
// come back in time, the node goes on as a follower.
func (t safeTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	heartbeat := len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0
	began := time.Now()
	for {
		if t.n.stalls != nil && t.n.stalls.Load() > 0 {
			return errStalledDisk
		}
		err := pastStale(func() error { return t.NetworkTransport.AppendEntries(id, target, args, resp) })
		if err == nil && resp.Success && !heartbeat {
			t.n.news.acknowledged(id, target, args)
		}
		var gone *unreachableError
		if heartbeat || !errors.As(err, &gone) || time.Since(began) > patientAtMost {
			return err
		}
		leads := t.n.leadsIn.Load()
		if leads == nil || !(*leads)(args.Term) || sleep(t.n.ctx, redialEvery) {
			return err
		}
	}
}
