package idem

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A sentinel is an Error that names a code and nothing else: it matches every
// error of that code, and an error with more to say is no sentinel.
func TestErrorIs(t *testing.T) {
	t.Parallel()
	full := &Error{Code: CodeInFlight, Detail: "x", RetryAfter: time.Second, Record: &Record{Key: "k"}, AttemptID: "a"}
	for _, err := range []error{full, fmt.Errorf("wrapped: %w", full)} {
		if !errors.Is(err, &Error{Code: CodeInFlight}) {
			t.Errorf("%v is not its own code", err)
		}
		if errors.Is(err, &Error{Code: CodeUncertain}) {
			t.Errorf("%v is another code", err)
		}
	}
	if errors.Is(full, &Error{Code: CodeInFlight, Detail: "y"}) {
		t.Error("an error with a detail was taken for a sentinel")
	}
}
