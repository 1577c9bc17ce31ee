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
