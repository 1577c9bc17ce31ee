package idem

import "time"

// Applied says what is known of a call that was not decided in time.
type Applied string

// The values of the applied member of a problem.
const (
	AppliedNo      Applied = "no"      // nothing was proposed, or it surely did nothing
	AppliedUnknown Applied = "unknown" // it may have been: repeat it with the same attemptId or token
)

// Error is what the caller did or met. It carries no internals. The members
// below RetryAfter are what a caller of the HTTP API is told beyond it: package
// client fills them from the problem that answered; the server leaves them out.
type Error struct {
	Code       Code
	Detail     string        // names the field or says what to do next
	Applied    Applied       // on CodeUnavailable and CodeOverloaded
	RetryAfter time.Duration // 0: none

	Record        *Record // what a refusal may tell of the record; nil: nothing
	Verdict       string  // with CodeKeyExpired: committed or failed
	AttemptID     string  // of the reserve that was refused: ask again with it
	Key           string
	CorrelationID string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Detail
}

// Is tells whether target is the sentinel of e's code: an *Error that names a
// code and nothing else. So errors.Is(err, &Error{Code: c}) asks for the code
// alone, whatever the detail and the record say.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && *t == Error{Code: e.Code}
}
