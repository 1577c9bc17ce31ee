package idem

import (
	"fmt"
	"strings"
	"testing"
)

func TestASCIIValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field    string
		check    func(string) *Error
		min, max int
		spaces   bool
	}{
		{"operation", CheckOperation, 0, 128, true},
		{"attemptId", CheckAttemptID, 16, 128, false},
		{"requestHash", CheckRequestHash, 1, 128, true},
		{"correlationId", CheckCorrelationID, 1, 128, true},
		{"errorCode", CheckErrorCode, 1, 128, true},
	}
	for _, tt := range tests {
		for _, n := range []int{0, 1, 15, 16, 17, 127, 128, 129, 4096} {
			code := CodeInvalidRequest
			if n >= tt.min && n <= tt.max {
				code = ""
			}
			wantCode(t, fmt.Sprintf("%s of %d", tt.field, n), tt.check(strings.Repeat("a", n)), code, tt.field)
		}
		for c := range 256 {
			s := "0123456789abcdef" + string([]byte{byte(c)}) + "0"
			code, parts := CodeInvalidRequest, []string{tt.field, fmt.Sprintf("0x%02x", c), "offset 16"}
			if c > ' ' && c < 0x7f || c == ' ' && tt.spaces {
				code, parts = "", nil
			}
			wantCode(t, fmt.Sprintf("%s %q", tt.field, s), tt.check(s), code, parts...)
		}
	}
	wantCode(t, "the digest of the older documents", CheckRequestHash("req-37be50f9"), "")
	wantCode(t, "a digest of ours", CheckRequestHash("sha256-"+strings.Repeat("0", 64)), "")
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{
		"default": true, "a": true, "0": true, "team-a.b_c": true, strings.Repeat("a", 63): true,
		"": false, strings.Repeat("a", 64): false, "-a": false, ".a": false, "_a": false, "..": false,
		"Team": false, "a b": false, "a/b": false, "a%2fb": false, "a:b": false, "ä": false, "a\x00": false, "a\n": false,
	} {
		code := CodeInvalidRequest
		if ok {
			code = ""
		}
		wantCode(t, fmt.Sprintf("%q", s), CheckNamespace(s), code, "namespace")
	}
	wantCode(t, "place", CheckNamespace("teamA"), CodeInvalidRequest, "'A'", "offset 4")
}

func TestLinesOfText(t *testing.T) {
	t.Parallel()
	for field, tt := range map[string]struct {
		check func(string) *Error
		max   int
	}{"reason": {CheckReason, 1024}, "actor": {CheckActor, 256}} {
		for s, ok := range map[string]bool{
			"":                                  true,
			"the exchange says it was filled":   true,
			"Zürich, 東京, שלום 🙂":                true,
			strings.Repeat("a", tt.max):         true,
			strings.Repeat("a", tt.max+1):       false,
			strings.Repeat("ä", tt.max/2) + "a": false,
			"two\nlines":                        false,
			"carriage\rreturn":                  false,
			"tab\tbed":                          false,
			"nul\x00":                           false,
			"escape \x1b[31m":                   false,
			"delete\x7f":                        false,
			"next line \u0085":                  false,
			"separator \u2028":                  false,
			"separator \u2029":                  false,
			"bad \xff":                          false,
		} {
			code := CodeInvalidRequest
			if ok {
				code = ""
			}
			wantCode(t, fmt.Sprintf("%s %q", field, s), tt.check(s), code, field)
		}
	}
}
