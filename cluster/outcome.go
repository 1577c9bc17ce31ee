package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// fate is what is known of a proposal.
type fate int

const (
	applied fate = iota // decided: there is a decision
	refused             // it surely did nothing: safe to send anywhere again
	unknown             // it may have been applied, or may still be
)

// outcome is how one proposal ended.
type outcome struct {
	fate     fate
	decision *fsm.Decision // when applied
	err      error         // why not, when refused or unknown
}

// Why a proposal was refused or is unknown. They stay inside this package:
// callers get an *idem.Error.
var (
	errNotLeader  = errors.New("this node does not lead")
	errNoLeader   = errors.New("no leader is known")
	errNotReady   = errors.New("the leader has not yet applied an entry of its own term")
	errOverloaded = errors.New("the propose queue is full")
	errClosing    = errors.New("the node is stopping")
	errHalted     = errors.New("the node has halted")
	errStarting   = errors.New("the node has not joined the others yet")
	errLate       = errors.New("the call's deadline passed before it was proposed")
	errNoAnswer   = errors.New("no answer before the deadline")
	errHungUp     = errors.New("the caller's connection ended, or its writing half")
	errNoClock    = errors.New("the wall clocks of a majority are not known yet")
)

// fateOf sorts the errors of raft's Apply and of its future: the table of what
// each means for the command. Anything that is not known to have done nothing
// is unknown; a failed write of the log may still be on disk, and
// ErrRaftShutdown is given for committed entries too.
func fateOf(err error) fate {
	switch {
	case err == nil:
		return applied
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrAbortedByRestore):
		return refused
	default: // ErrLeadershipLost, ErrRaftShutdown, a store's error, no answer
		return unknown
	}
}

// await is the one place that waits for a raft future. A future may never be
// answered once raft shuts down (hashicorp/raft#498), so it also ends when the
// node closes; the goroutine that waits then stays until the process ends.
func await(ctx context.Context, f raft.Future) error {
	if mutant == "await" {
		return f.Error()
	}
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		// The answer may have come in the same moment.
		select {
		case err := <-done:
			return err
		default:
			return context.Cause(ctx)
		}
	}
}

// retryAfter is what a caller is told to wait before the next try when the
// cluster could not decide: about one election.
const retryAfter = time.Second

// unavailable is the answer of a call that was not decided in its time.
func unavailable(f fate, cause error) *idem.Error {
	e := &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedNo, RetryAfter: retryAfter}
	if f == unknown {
		e.Applied = idem.AppliedUnknown
	}
	e.Detail = "the cluster could not decide in time"
	if cause != nil {
		e.Detail += ": " + cause.Error()
	}
	return e
}

func overloaded() *idem.Error {
	return &idem.Error{
		Code: idem.CodeOverloaded, Applied: idem.AppliedNo, RetryAfter: retryAfter,
		Detail: errOverloaded.Error() + "; nothing was proposed",
	}
}
