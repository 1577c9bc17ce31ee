package chaos

import (
	"path/filepath"
	"testing"
)

// TestKeptHistories: histories that the checks once had no explanation for, and
// that the contract allows, stay explained.
func TestKeptHistories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 3 {
		t.Fatalf("histories: %v, %v", files, err)
	}
	for _, file := range files {
		ops, err := ReadHistory(file)
		if err != nil {
			t.Fatal(err)
		}
		f := Check(t.Context(), ops, nil, Limits{})
		for _, r := range f.Reasons {
			t.Errorf("%s: %s", file, r)
		}
	}
}

// TestKeptViolations: histories that a fault of the product made, each with what
// the checks said of it. They must never be explained.
func TestKeptViolations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/violations/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("histories: %v, %v", files, err)
	}
	for _, file := range files {
		ops, err := ReadHistory(file)
		if err != nil {
			t.Fatal(err)
		}
		if f := Check(t.Context(), ops, nil, Limits{}); f.Linearizable || len(f.Reasons) == 0 {
			t.Errorf("%s is explained now", file)
		}
	}
}
