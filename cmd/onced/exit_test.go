package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/onced/onced/idem"
)

// No code is forgotten when one is added to idem.
func TestExitCodeOfEveryCode(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "../../idem/code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if _, ok := exitByCode[idem.Code(code)]; !ok {
			t.Errorf("%s has no exit code", code)
		}
		seen++
		return true
	})
	if seen != len(exitByCode) {
		t.Errorf("idem has %d codes, exitByCode %d", seen, len(exitByCode))
	}
}

func TestExitCodesOverHTTP(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code   idem.Code
		status int
		want   int
	}{
		{idem.CodeKeyMissing, 400, 2},
		{idem.CodeKeyInvalid, 400, 2},
		{idem.CodeTokenMissing, 400, 2},
		{idem.CodeInvalidRequest, 400, 2},
		{idem.CodeRequestTooLarge, 413, 2},
		{idem.CodeUnsupportedMediaType, 415, 2},
		{idem.CodeUnavailable, 503, 3},
		{idem.CodeOverloaded, 503, 3},
		{idem.CodeNotFound, 404, 4},
		{idem.CodeNamespaceNotFound, 404, 4},
		{idem.CodeNamespaceRetired, 410, 4},
		{idem.CodeKeyConflict, 422, 5},
		{idem.CodeCancelled, 409, 5},
		{idem.CodeDuplicate, 409, 5},
		{idem.CodeAttemptSpent, 409, 5},
		{idem.CodeStaleToken, 409, 5},
		{idem.CodeAlreadySettled, 409, 5},
		{idem.CodeStaleVersion, 412, 5},
		{idem.CodeNamespaceNotEmpty, 409, 5},
		{idem.CodeInFlight, 409, 6},
		{idem.CodeUncertain, 409, 7},
		{idem.CodeUnauthorized, 401, 8},
		{idem.CodeForbidden, 403, 8},
		{idem.CodeQuotaExceeded, 429, 8},
		{idem.CodeKeyExpired, 410, 9},
		{idem.CodeInternal, 500, 1},
		{idem.CodeRouteNotFound, 404, 1},
		{idem.CodeMethodNotAllowed, 405, 1},
		{"a_code_of_tomorrow", 409, 5},
		{"a_code_of_tomorrow", 410, 9},
		{"a_code_of_tomorrow", 503, 3},
		{"a_code_of_tomorrow", 418, 1},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.code, tc.status), func(t *testing.T) {
			t.Parallel()
			body := fmt.Sprintf(`{"type":"about:blank","title":"T","status":%d,"detail":"what happened","code":%q,"retryable":false,"safeNewKey":false,"correlationId":"c"}`, tc.status, tc.code)
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(tc.status)
				_, _ = fmt.Fprintln(w, body)
			}))
			defer node.Close()
			got := runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", node.URL)
			if got.code != tc.want || got.stdout != "" || !strings.Contains(got.stderr, "what happened ("+string(tc.code)+")") {
				t.Errorf("text: %+v, want exit %d", got, tc.want)
			}
			got = runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", node.URL, "-o", "json")
			if got.code != tc.want || got.stdout != body+"\n" {
				t.Errorf("json: %+v, want exit %d and the body as sent", got, tc.want)
			}
		})
	}
}
