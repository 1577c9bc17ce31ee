package client

import (
	"context"
	"errors"

	"github.com/onced/onced/idem"
)

// The sentinels for errors.Is, one for each code of semantics.md and api.md
// that a caller may want to tell apart. errors.As with a *idem.Error gives the
// rest of what was told: Record, Verdict, RetryAfter, AttemptID.
var (
	ErrKeyMissing        = sentinel(idem.CodeKeyMissing)
	ErrKeyInvalid        = sentinel(idem.CodeKeyInvalid)
	ErrExpired           = sentinel(idem.CodeKeyExpired)  // no licence to run again
	ErrConflict          = sentinel(idem.CodeKeyConflict) // a bug of the caller: never retry
	ErrInFlight          = sentinel(idem.CodeInFlight)
	ErrUncertain         = sentinel(idem.CodeUncertain) // it may have run, and nobody knows
	ErrCancelled         = sentinel(idem.CodeCancelled)
	ErrDuplicate         = sentinel(idem.CodeDuplicate)
	ErrAttemptSpent      = sentinel(idem.CodeAttemptSpent)
	ErrNotFound          = sentinel(idem.CodeNotFound)
	ErrStaleToken        = sentinel(idem.CodeStaleToken) // you hold the key no longer
	ErrTokenMissing      = sentinel(idem.CodeTokenMissing)
	ErrAlreadySettled    = sentinel(idem.CodeAlreadySettled)
	ErrStaleVersion      = sentinel(idem.CodeStaleVersion)
	ErrUnavailable       = sentinel(idem.CodeUnavailable) // no decision: do not run
	ErrOverloaded        = sentinel(idem.CodeOverloaded)
	ErrQuota             = sentinel(idem.CodeQuotaExceeded)
	ErrInvalid           = sentinel(idem.CodeInvalidRequest)
	ErrTooLarge          = sentinel(idem.CodeRequestTooLarge)
	ErrUnauthorized      = sentinel(idem.CodeUnauthorized)
	ErrForbidden         = sentinel(idem.CodeForbidden)
	ErrNamespaceNotFound = sentinel(idem.CodeNamespaceNotFound)
	ErrNamespaceRetired  = sentinel(idem.CodeNamespaceRetired)
	ErrInternal          = sentinel(idem.CodeInternal)
)

func sentinel(code idem.Code) error { return &idem.Error{Code: code} }

func invalid(detail string) error {
	return &idem.Error{Code: idem.CodeInvalidRequest, Detail: detail}
}

// asError keeps a nil *idem.Error from becoming an error that is not nil.
func asError(err *idem.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// callError is what a call met, and why: the last node's trouble, the end of
// the context.
type callError struct {
	problem *idem.Error
	cause   error
}

func (e *callError) Error() string {
	if e.cause == nil {
		return e.problem.Error()
	}
	return e.problem.Error() + ": " + e.cause.Error()
}

func (e *callError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.problem}
	}
	return []error{e.problem, e.cause}
}

// noDecision tells that err leaves a call undecided, as against one that a
// node refused.
func noDecision(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrInternal)
}

// tally is what the tries of one call have met so far.
type tally struct {
	reads   bool // the call changes nothing
	unknown bool // a try may have been applied
	last    *idem.Error
	cause   error
	strange int // tries answered by something that is no node
}

// verdict is the error of a call that ended without a decision. One try that
// may have been applied decides: a later "applied: no" speaks of itself alone.
func (t *tally) verdict(ctx context.Context) error {
	p := &idem.Error{Code: idem.CodeUnavailable, Detail: "no decision within the budget"}
	if t.last != nil {
		copied := *t.last
		p = &copied
	}
	switch {
	case t.reads:
		p.Applied = ""
	case t.unknown:
		p.Applied = idem.AppliedUnknown
	default:
		p.Applied = idem.AppliedNo
	}
	cause := t.cause
	if ended := context.Cause(ctx); ended != nil && !errors.Is(cause, ended) {
		cause = errors.Join(ended, cause)
	}
	return &callError{p, cause}
}
