package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestB07_FateOfEveryRaftError is the table of what each error of Apply means
// for the command: "leadership lost" must never be read as "did not happen".
func TestB07_FateOfEveryRaftError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want fate
	}{
		{nil, applied},
		{raft.ErrNotLeader, refused},
		{raft.ErrEnqueueTimeout, refused},
		{raft.ErrLeadershipTransferInProgress, refused},
		{raft.ErrAbortedByRestore, refused},
		{raft.ErrLeadershipLost, unknown},
		{raft.ErrRaftShutdown, unknown},
		{errors.New("write raft.db: input/output error"), unknown},
		{context.DeadlineExceeded, unknown},
		{context.Canceled, unknown},
	} {
		if got := fateOf(c.err); got != c.want {
			t.Errorf("%v: fate %d, want %d", c.err, got, c.want)
		}
	}
}

// hungFuture is a future that raft never answers.
type hungFuture struct{ answered chan error }

func (f hungFuture) Error() error { return <-f.answered }

// TestAwaitEndsWithoutAnAnswer holds hashicorp/raft#498: futures may hang for
// ever at shutdown.
func TestAwaitEndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := hungFuture{make(chan error)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := await(ctx, f); !errors.Is(err, context.DeadlineExceeded) || fateOf(err) != unknown {
			t.Fatalf("await: %v, want the context's end, fate unknown", err)
		}
		f.answered <- nil // lets the goroutine end
	})
}
