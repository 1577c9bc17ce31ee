package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

func marshalTest(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// Every code of idem has a row, and every row a sentence; the statuses are
// those of semantics.md and api.md.
func TestStatusTableIsWhole(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../idem/code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		row, ok := codes[idem.Code(value)]
		if !ok {
			t.Errorf("%s has no row", value)
		}
		if row.title == "" || row.status < 400 || row.detail == "" && value != string(idem.CodeInvalidRequest) {
			t.Errorf("%s: incomplete row %+v", value, row)
		}
		if idem.Code(value).Retryable() != (row.retryAfter > 0) {
			t.Errorf("%s: retryable and Retry-After disagree", value)
		}
		return true
	})
	if found != len(codes) || found < 28 {
		t.Errorf("%d codes, %d rows", found, len(codes))
	}
	want := map[idem.Code]int{
		"idempotency_key_missing": 400, "idempotency_key_invalid": 400, "idempotency_key_expired": 410,
		"idempotency_key_conflict": 422, "idempotency_in_flight": 409, "idempotency_uncertain": 409,
		"idempotency_cancelled": 409, "idempotency_duplicate": 409, "idempotency_attempt_spent": 409,
		"idempotency_not_found": 404, "idempotency_stale_token": 409, "idempotency_token_missing": 400,
		"idempotency_already_settled": 409, "idempotency_stale_version": 412, "idempotency_unavailable": 503,
		"invalid_request": 400, "request_too_large": 413, "unsupported_media_type": 415, "unauthorized": 401,
		"forbidden": 403, "namespace_not_found": 404, "namespace_retired": 410, "namespace_not_empty": 409,
		"quota_exceeded": 429, "overloaded": 503, "route_not_found": 404, "method_not_allowed": 405, "internal": 500,
	}
	for code, status := range want {
		if codes[code].status != status {
			t.Errorf("%s: %d, want %d", code, codes[code].status, status)
		}
	}
}

// Every outcome of the machine has a row.
func TestOutcomeTableIsWhole(t *testing.T) {
	t.Parallel()
	for n, name := range fsmpb.Outcome_name {
		if n == 0 {
			continue
		}
		row, ok := outcomes[fsmpb.Outcome(n)]
		if !ok || row.status < 200 || row.status > 299 {
			t.Errorf("%s has no row", name)
		}
		if want := strings.ToLower(strings.TrimPrefix(name, "OUTCOME_")); row.name != want {
			t.Errorf("%s is called %q", name, row.name)
		}
	}
}
