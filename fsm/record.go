package fsm

import (
	"time"

	"github.com/onced/onced/fsm/fsmpb"
)

// Status is the stored state of a record; View adds the two derived ones.
type Status = fsmpb.Status

// The stored states.
const (
	Pending   = fsmpb.Status_STATUS_PENDING
	Committed = fsmpb.Status_STATUS_COMMITTED
	Failed    = fsmpb.Status_STATUS_FAILED
	Released  = fsmpb.Status_STATUS_RELEASED
	Cancelled = fsmpb.Status_STATUS_CANCELLED
)

// Record is one key of one namespace. A Record is never changed once the
// machine has let go of it: a change makes a new one, so that a pointer stays
// good after the lock is gone and in every snapshot view.
type Record struct {
	Namespace     string
	Key           string
	Operation     string
	RequestDigest string
	Status        Status
	AttemptID     string // of the latest claim; "" when never claimed
	Token         uint64 // of the latest claim; 0 when never claimed
	Attempt       uint32 // number of claims so far
	Version       uint64 // +1 at every change but the counting of replays

	CreatedAt      Time // first seen, kept over attempts
	ClaimedAt      Time // latest claim
	LeaseExpiresAt Time
	SettledAt      Time // settled, released or cancelled
	ExpiresAt      Time // end of the ttl; 0 while pending
	RetainedUntil  Time // removal; 0 while pending

	// As the latest claim was made under.
	TTL                time.Duration
	Retention          time.Duration
	RerunOnLeaseExpiry bool
	RerunOnExpired     bool

	Response        []byte // after redaction; JSON as sent
	HasResponse     bool
	ResponseOmitted bool // too large to keep
	Dropped         bool // ttl over, swept: the verdict is kept without the bytes
	Redacted        []string
	ErrorCode       string
	OutcomeDigest   string

	Replays        uint64
	LastReplayedAt Time
	CorrelationID  string
	Previous       *PreviousAttempt
	Fingerprint    string // the fingerprint the key was formed from, without its minute
	NotApplied     bool   // released by resolve(not_applied)
}

// PreviousAttempt is the claim before the present one, for a caller that takes
// over and must look before it leaps.
type PreviousAttempt struct {
	Attempt        uint32
	Ended          string // lapsed, released, not_applied or expired
	ClaimedAt      Time
	LeaseExpiresAt Time
	CorrelationID  string
}

// Settled tells whether r holds an outcome.
func (r *Record) Settled() bool { return isSettled(r.Status) }

func isSettled(s Status) bool { return s == Committed || s == Failed }
