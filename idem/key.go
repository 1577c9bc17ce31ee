package idem

import (
	"fmt"
	"strconv"
	"strings"
)

// The bounds of a key, in characters (semantics.md section 1). Keys are ASCII,
// so characters and bytes are one.
const (
	MinKeyLength = 8
	MaxKeyLength = 256
)

// keyBytes holds the bytes of the key grammar, [A-Za-z0-9._:-]; a table keeps
// the check of the common path to one load a byte.
var keyBytes = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")

func byteSet(s string) (set [256]bool) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

// CheckKey holds s against the key grammar of semantics.md section 1: 8 to 256
// characters of [A-Za-z0-9._:-]. An empty key, and one of white space only, is
// CodeKeyMissing; any other fault is CodeKeyInvalid, and the detail names the
// length or the offending byte and its offset (counted from 0). A key is never
// trimmed, cut or folded: one that does not fit is refused.
func CheckKey(s string) *Error { return checkKey("key", s) }

func checkKey(field, s string) *Error {
	if strings.TrimSpace(s) == "" {
		return &Error{Code: CodeKeyMissing, Detail: field + " is missing: send one that names this intent"}
	}
	if len(s) < MinKeyLength || len(s) > MaxKeyLength {
		return &Error{Code: CodeKeyInvalid, Detail: fmt.Sprintf("%s has %d characters; a key has %d to %d",
			field, len([]rune(s)), MinKeyLength, MaxKeyLength) + bytesNote(s)}
	}
	for i := range len(s) {
		if !keyBytes[s[i]] {
			return &Error{Code: CodeKeyInvalid, Detail: fmt.Sprintf(
				"%s has %s at offset %d; a key is made of letters, digits and . _ : -", field, byteName(s[i]), i)}
		}
	}
	return nil
}

// bytesNote adds the length in bytes where it is not the length in characters.
func bytesNote(s string) string {
	if n := len([]rune(s)); n != len(s) {
		return fmt.Sprintf(" (and is ASCII: this one takes %d bytes)", len(s))
	}
	return ""
}

// byteName shows one byte of a refused value: printable ASCII in quotes, and
// always the hexadecimal value.
func byteName(c byte) string {
	if c > ' ' && c < 0x7f {
		return fmt.Sprintf("%s (0x%02x)", strconv.QuoteRune(rune(c)), c)
	}
	if c == ' ' {
		return "a space (0x20)"
	}
	return fmt.Sprintf("the byte 0x%02x", c)
}
