package fsm

import (
	"time"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// Outcome is what a command that was not refused did.
type Outcome = fsmpb.Outcome

// The outcomes.
const (
	OutcomeReserved         = fsmpb.Outcome_OUTCOME_RESERVED
	OutcomeReplayed         = fsmpb.Outcome_OUTCOME_REPLAYED
	OutcomeCommitted        = fsmpb.Outcome_OUTCOME_COMMITTED
	OutcomeFailed           = fsmpb.Outcome_OUTCOME_FAILED
	OutcomeReleased         = fsmpb.Outcome_OUTCOME_RELEASED
	OutcomeExtended         = fsmpb.Outcome_OUTCOME_EXTENDED
	OutcomeCancelled        = fsmpb.Outcome_OUTCOME_CANCELLED
	OutcomeResolved         = fsmpb.Outcome_OUTCOME_RESOLVED
	OutcomeNamespaceCreated = fsmpb.Outcome_OUTCOME_NAMESPACE_CREATED
	OutcomeNamespaceChanged = fsmpb.Outcome_OUTCOME_NAMESPACE_CHANGED
	OutcomeNamespaceDeleted = fsmpb.Outcome_OUTCOME_NAMESPACE_DELETED
	OutcomeSwept            = fsmpb.Outcome_OUTCOME_SWEPT
	OutcomeDone             = fsmpb.Outcome_OUTCOME_DONE
)

// Result is the machine's answer to one command: an Outcome, or a Code that
// refuses it. A refused command has changed nothing.
type Result struct {
	Outcome Outcome
	Code    idem.Code // "" when not refused
	Detail  string    // a sentence for people, "" when the code says all
	Unknown bool      // with CodeUnavailable: an earlier try of the same call may have been applied

	// Record is the record after the command, nil where there is none. It
	// holds everything, token and attemptId too: the edge decides what a caller
	// may see.
	Record *Record

	Resumed        bool          // reserve: the same attempt asked again
	Changed        bool          // something was written
	LeaseRemaining time.Duration // reserve, extend: from the deciding time
	RetryAfter     time.Duration // in_flight: until the lease is over

	Namespace *Namespace // namespace commands

	Dropped    int // sweep: records removed
	Tombstoned int // sweep: responses dropped, verdicts kept
	Remaining  int // sweep: records that are due and were left for the next
}

// Decision is what the log, or this node's memory, said to a list of commands.
type Decision struct {
	Index   uint64 // log index that decided; for a local answer, the machine's
	Time    Time   // log time that decided
	Results []Result
	Local   bool // answered from this node's memory: no entry, no leader
}

// ReadOptions say how fresh a read must be.
type ReadOptions struct {
	Strong   bool   // linearizable: behind a shared fence in the log
	MinIndex uint64 // at least this index is applied; 0: any
}
