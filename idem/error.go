package idem

import "time"

// Applied says what is known of a call that was not decided in time.
type Applied string

// The values of the applied member of a problem.
const (
	AppliedNo      Applied = "no"      // nothing was proposed, or it surely did nothing
	AppliedUnknown Applied = "unknown" // it may have been: repeat it with the same attemptId or token
)

// Error is what the caller did or met. It carries no internals.
type Error struct {
	Code       Code
	Detail     string        // names the field or says what to do next
	Applied    Applied       // on CodeUnavailable and CodeOverloaded
	RetryAfter time.Duration // 0: none
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Detail
}
