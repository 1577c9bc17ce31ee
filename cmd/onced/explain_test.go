package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// No code is left unexplained when one is added to idem.
func TestExplainEveryCode(t *testing.T) {
	t.Parallel()
	explainedCodes := map[idem.Code]bool{}
	for _, e := range explanations {
		if explainedCodes[e.code] {
			t.Errorf("%s is explained twice", e.code)
		}
		explainedCodes[e.code] = true
		if !strings.HasSuffix(e.meaning, ".") || !strings.HasSuffix(e.next, ".") {
			t.Errorf("%s: not in sentences", e.code)
		}
	}
	codes := codesOfIdem(t)
	for _, code := range codes {
		if !explainedCodes[code] {
			t.Errorf("%s is not explained", code)
		}
		got := runCommand(t, nil, "", "explain", string(code))
		if got.code != exitOK || !strings.HasPrefix(got.stdout, string(code)+"\n") {
			t.Errorf("explain %s: %+v", code, got)
		}
		got = runCommand(t, nil, "", "explain", string(code), "-o", "json")
		var e explained
		if err := json.Unmarshal([]byte(got.stdout), &e); err != nil {
			t.Fatal(err)
		}
		if e.Code != code || e.Retryable != code.Retryable() || e.SafeNewKey != code.SafeNewKey() || e.ExitCode != exitByCode[code] {
			t.Errorf("%+v", e)
		}
	}
	if len(explanations) != len(codes) {
		t.Errorf("%d explanations, %d codes", len(explanations), len(codes))
	}
	if got := runCommand(t, nil, "", "explain"); strings.Count(got.stdout, "\n") != len(codes)+3 {
		t.Errorf("explain:\n%s", got.stdout)
	}
}

// The HTTP statuses are those that the API answers with.
func TestExplainedStatuses(t *testing.T) {
	t.Parallel()
	statuses := statusTable(t)
	names := codeNames(t)
	if len(statuses) != len(explanations) {
		t.Errorf("httpapi has %d codes, explain %d", len(statuses), len(explanations))
	}
	for name, status := range statuses {
		e, ok := findExplanation(string(names[name]))
		if !ok || e.status != status {
			t.Errorf("%s: explained with %d, answered with %d", name, e.status, status)
		}
	}
}

func TestExplainMistakes(t *testing.T) {
	t.Parallel()
	if got := runCommand(t, nil, "", "explain", "idempotency_uncertian"); got.code != exitNotFound || !strings.Contains(got.stderr, "onced explain idempotency_uncertain") {
		t.Errorf("%+v", got)
	}
	if got := runCommand(t, nil, "", "explain", "Uncertain"); got.code != exitOK || !strings.Contains(got.stdout, "onced resolve") {
		t.Errorf("%+v", got)
	}
}

// codeNames reads the codes of idem by the names of their constants.
func codeNames(t *testing.T) map[string]idem.Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../idem/code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]idem.Code{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			code, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			names[spec.Names[0].Name] = idem.Code(code)
		}
		return true
	})
	return names
}

func codesOfIdem(t *testing.T) (codes []idem.Code) {
	for _, code := range codeNames(t) {
		codes = append(codes, code)
	}
	return codes
}

// statusTable reads the status of each code from the table of httpapi.
func statusTable(t *testing.T) map[string]int {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../httpapi/status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{}
	ast.Inspect(f, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := kv.Key.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(key.Sel.Name, "Code") {
			return true
		}
		if lit, ok := kv.Value.(*ast.CompositeLit); ok {
			status, err := strconv.Atoi(lit.Elts[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			statuses[key.Sel.Name] = status
		}
		return true
	})
	return statuses
}
