package client

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// What a run can come to besides a value and ErrUncertain.
var (
	// ErrNotStarted: the run said that its effect surely did not start.
	ErrNotStarted = errors.New("client: not started")
	// ErrFailed: the run failed for good, now or on an earlier attempt.
	ErrFailed = errors.New("client: failed")
	// ErrUnrecorded: what the run came to is known, and could not be recorded.
	ErrUnrecorded = errors.New("client: the outcome was not recorded")
	// ErrLeaseLost: another may hold the key. It is the cause of the run's
	// context when the lease is lost.
	ErrLeaseLost = errors.New("client: the lease is lost")
	// ErrReplay: it ran, and what it gave cannot be given again: the response
	// was too large to keep, or is not a T. Outcome.Record has what there is.
	ErrReplay = errors.New("client: the recorded outcome cannot be given as a value")
)

// notStarted and failure mark what a run returns. They are only looked for in
// what that run itself returns: errors that come out of Do never count.
type notStarted struct{ err error }

func (e *notStarted) Error() string { return "not started: " + e.err.Error() }
func (e *notStarted) Unwrap() error { return e.err }

type failure struct {
	code     string
	err      error
	response any
}

func (e *failure) Error() string { return e.code + ": " + e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// NotStarted is what a run returns when its effect surely did not start and
// will not: the connection was refused, a check before it said no. The key is
// given back, and the next attempt runs. When in doubt return the plain error:
// a time-out or a broken connection after sending is no "not started".
func NotStarted(err error) error {
	if err == nil {
		err = errors.New("no cause given")
	}
	return &notStarted{err}
}

// Failed is what a run returns when it failed for good and may not be tried
// again: declined, not allowed, no such account. The failure is recorded under
// code, 1 to 128 printable ASCII characters, and every later call gets it as
// the same *FailedError. err stays here; only its code is recorded. A code that
// is malformed is recorded as "failed".
func Failed(code string, err error) error { return FailedWith(code, err, nil) }

// FailedWith is Failed with a response that is recorded, and replayed, with the
// code.
func FailedWith(code string, err error, response any) error {
	if err == nil {
		err = errors.New("no cause given")
	}
	if idem.CheckErrorCode(code) != nil {
		code = "failed"
	}
	return &failure{code, err, response}
}

// classify finds the mark in what a run returned: the outermost in its chain.
// Joined errors are not looked into: one part that did not start says nothing
// of the other. The errors of Do itself are joined ones for the same reason: a
// run that calls Do for a part of its work, and returns its error, says nothing
// of the rest by it.
func classify(err error) (*notStarted, *failure) {
	for err != nil {
		switch e := err.(type) {
		case *notStarted:
			return e, nil
		case *failure:
			return nil, e
		}
		one, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil, nil
		}
		err = one.Unwrap()
	}
	return nil, nil
}

// NotStartedError: the effect did not start, and the key was given back. It is
// ErrNotStarted.
type NotStartedError struct {
	Key string
	Err error // as the run returned it
}

func (e *NotStartedError) Error() string   { return e.Key + ": " + e.Err.Error() }
func (e *NotStartedError) Unwrap() []error { return []error{ErrNotStarted, e.Err} }

// FailedError: the run failed for good. It is ErrFailed.
type FailedError struct {
	Key      string
	Code     string
	Replayed bool           // an earlier attempt failed; nothing ran now
	Response jsontext.Value // as recorded; nil: none
	Err      error          // as the run returned it; nil when replayed
}

func (e *FailedError) Error() string {
	if e.Err == nil {
		return e.Key + ": failed before with " + e.Code
	}
	return e.Key + ": failed with " + e.Err.Error()
}

func (e *FailedError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrFailed}
	}
	return []error{ErrFailed, e.Err}
}

// UncertainError: the run started, and nobody can tell whether its effect
// happened. Nothing was recorded: until the lease ends others are told in
// flight, then uncertain, and never run it (unless the namespace says
// onLeaseExpiry: rerun). Whoever finds out settles it with Key and Token, by
// Commit, Fail or Release. It is ErrUncertain.
type UncertainError struct {
	Key       string
	Token     string
	AttemptID string
	Err       error // as the run returned it
	LeaseLost error // why the lease was lost while it ran; nil: it was not
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%s: left uncertain: %v", e.Key, e.Err)
}

func (e *UncertainError) Unwrap() []error {
	all := []error{ErrUncertain, e.Err}
	if e.LeaseLost != nil {
		all = append(all, e.LeaseLost)
	}
	return all
}

// UnrecordedError: what the run came to is known to this caller and not to the
// cluster, where the key becomes uncertain, or belongs to another. Run is what
// Do would have returned (nil with a value, which Outcome.Value then has), and
// Err why it was not recorded: ErrUnavailable (do repeat Commit, Fail or
// Release with Key and Token), ErrStaleToken, ErrAlreadySettled. It is
// ErrUnrecorded.
type UnrecordedError struct {
	Key       string
	Token     string
	AttemptID string
	Run       error
	Err       error
	LeaseLost error // why the lease was lost while it ran; nil: it was not
}

func (e *UnrecordedError) Error() string {
	return fmt.Sprintf("%s: the outcome was not recorded: %v", e.Key, e.Err)
}

func (e *UnrecordedError) Unwrap() []error {
	all := []error{ErrUnrecorded, e.Err}
	for _, err := range []error{e.Run, e.LeaseLost} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// replayError: see ErrReplay.
type replayError struct {
	key string
	err error
}

func (e *replayError) Error() string   { return e.key + ": " + e.err.Error() }
func (e *replayError) Unwrap() []error { return []error{ErrReplay, e.err} }
