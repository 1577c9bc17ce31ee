package idem

import (
	"strings"
	"testing"
)

// wantCode fails unless err has the code ("" for none) and its detail holds
// every part.
func wantCode(t *testing.T, what string, err *Error, code Code, parts ...string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("%s: refused with %v, want it taken", what, err)
		}
		return
	}
	if err == nil {
		t.Errorf("%s: taken, want %s", what, code)
		return
	}
	if err.Code != code {
		t.Errorf("%s: code %s, want %s", what, err.Code, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Detail, part) {
			t.Errorf("%s: detail %q does not say %q", what, err.Detail, part)
		}
	}
}
