package idem

import (
	"strconv"
	"strings"
)

// ParseToken reads a token as the API writes it: a decimal number from 1 to
// 2^64-1 as a string, without sign, leading zeros, spaces or separators, so
// that a token has one spelling. An empty one is CodeTokenMissing, any other
// fault CodeInvalidRequest. 0 is refused: it is never given out, and stands for
// "no token" in commands and records.
func ParseToken(s string) (uint64, *Error) {
	if strings.TrimSpace(s) == "" {
		return 0, &Error{Code: CodeTokenMissing, Detail: "token is missing: send the one that the reserve answered with"}
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, tokenInvalid()
		}
	}
	if s[0] == '0' {
		return 0, tokenInvalid()
	}
	token, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, tokenInvalid()
	}
	return token, nil
}

func tokenInvalid() *Error {
	return invalid("token must be a decimal number as the reserve answered it: digits only, no leading zero, at most 18446744073709551615")
}

// FormatToken writes a token as ParseToken reads it.
func FormatToken(token uint64) string { return strconv.FormatUint(token, 10) }
