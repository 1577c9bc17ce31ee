package chaos

import (
	"os"
	"strings"
	"testing"
)

func TestBlocks(t *testing.T) {
	t.Parallel()
	doc := "# A\n\n" + block("one", "old\n") + "\n\ntext\n\n" + block("two", "") + "\n"
	doc, err := IntoDocument(doc, "one", "| new |\n")
	if err != nil || !strings.Contains(doc, "| new |") || strings.Contains(doc, "old") || !strings.Contains(doc, "text") {
		t.Fatalf("%v\n%s", err, doc)
	}
	if names, err := CheckDocument(doc); err != nil || strings.Join(names, " ") != "one two" {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := CheckDocument(strings.Replace(doc, "new", "better", 1)); err == nil {
		t.Error("a change by hand was not noticed")
	}
	if _, err := CheckDocument(strings.Replace(doc, "<!-- /chaos -->", "", 1)); err == nil {
		t.Error("a broken block was not noticed")
	}
	if _, err := IntoDocument(doc, "three", ""); err == nil {
		t.Error("a block that is not there was written")
	}
}

// TestReliabilityIsWrittenByTheCommand: nobody has changed the figures by hand.
func TestReliabilityIsWrittenByTheCommand(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/RELIABILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if names, err := CheckDocument(string(b)); err != nil || len(names) == 0 {
		t.Errorf("blocks %v: %v", names, err)
	}
	for _, f := range Faults() {
		if !strings.Contains(string(b), "`"+f.Name+"`") {
			t.Errorf("docs/RELIABILITY.md does not tell of the fault %s", f.Name)
		}
	}
}
