package idem

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The longest values, in bytes.
const (
	MaxNamespaceLength     = 63
	MaxOperationLength     = 128
	MinAttemptIDLength     = 16
	MaxAttemptIDLength     = 128
	MaxRequestHashLength   = 128
	MaxCorrelationIDLength = 128
	MaxErrorCodeLength     = 128
	MaxReasonLength        = 1024
	MaxActorLength         = 256
)

// invalid makes the error of a value that is refused before anything else is
// looked at; detail begins with the field.
func invalid(detail string) *Error { return &Error{Code: CodeInvalidRequest, Detail: detail} }

// CheckNamespace holds s against the grammar of namespace names,
// [a-z0-9][a-z0-9._-]{0,62} (semantics.md section 1); CodeInvalidRequest.
func CheckNamespace(s string) *Error {
	if s == "" {
		return invalid("namespace is missing")
	}
	if len(s) > MaxNamespaceLength {
		return invalid(fmt.Sprintf("namespace has %d bytes, at most %d are allowed", len(s), MaxNamespaceLength))
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return invalid(fmt.Sprintf("namespace has %s at offset %d; a name is made of lower-case letters, digits and . _ -, and begins with a letter or digit", byteName(c), i))
		}
	}
	return nil
}

// CheckOperation takes up to 128 printable ASCII characters, none included;
// CodeInvalidRequest.
func CheckOperation(s string) *Error {
	return checkASCII("operation", s, 0, MaxOperationLength, ' ')
}

// CheckAttemptID takes 16 to 128 printable ASCII characters without spaces;
// CodeInvalidRequest. Spaces are left out because transports trim them, and an
// attemptId that lost one would be another attempt.
func CheckAttemptID(s string) *Error {
	return checkASCII("attemptId", s, MinAttemptIDLength, MaxAttemptIDLength, '!')
}

// CheckRequestHash takes 1 to 128 printable ASCII characters;
// CodeInvalidRequest. The value is opaque: the req-xxxxxxxx form that older
// callers send is as good as any.
func CheckRequestHash(s string) *Error {
	return checkASCII("requestHash", s, 1, MaxRequestHashLength, ' ')
}

// CheckCorrelationID takes 1 to 128 printable ASCII characters;
// CodeInvalidRequest.
func CheckCorrelationID(s string) *Error {
	return checkASCII("correlationId", s, 1, MaxCorrelationIDLength, ' ')
}

// CheckErrorCode takes 1 to 128 printable ASCII characters;
// CodeInvalidRequest.
func CheckErrorCode(s string) *Error {
	return checkASCII("errorCode", s, 1, MaxErrorCodeLength, ' ')
}

// CheckReason takes up to 1024 bytes of UTF-8 text in one line, without control
// characters; CodeInvalidRequest. Empty passes: whether a reason is asked for
// is the operation's affair.
func CheckReason(s string) *Error { return checkLine("reason", s, MaxReasonLength) }

// CheckActor takes up to 256 bytes of UTF-8 text in one line, without control
// characters; CodeInvalidRequest. Empty passes, as with CheckReason.
func CheckActor(s string) *Error { return checkLine("actor", s, MaxActorLength) }

// checkASCII takes min to max bytes from first to '~'.
func checkASCII(field, s string, min, max int, first byte) *Error {
	if s == "" && min > 0 {
		return invalid(field + " is empty")
	}
	if len(s) < min || len(s) > max {
		return invalid(fmt.Sprintf("%s has %d bytes, %d to %d are allowed", field, len(s), min, max))
	}
	for i := range len(s) {
		if s[i] < first || s[i] > '~' {
			return invalid(fmt.Sprintf("%s has %s at offset %d; printable ASCII is allowed%s",
				field, byteName(s[i]), i, map[bool]string{true: " without spaces"}[first > ' ']))
		}
	}
	return nil
}

// checkLine takes up to max bytes of text that stays on its line wherever it is
// written: no control characters, no line or paragraph separators.
func checkLine(field, s string, max int) *Error {
	if len(s) > max {
		return invalid(fmt.Sprintf("%s has %d bytes, at most %d are allowed", field, len(s), max))
	}
	if !utf8.ValidString(s) {
		return invalid(field + " is not valid UTF-8")
	}
	if i := strings.IndexFunc(s, breaksLine); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return invalid(fmt.Sprintf("%s has the control character %U at offset %d", field, r, i))
	}
	return nil
}

func breaksLine(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}
