package onced_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// The documents are held against the tree: tests that they name exist, links
// lead somewhere, and tables that can be run are run.

func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) < 3 {
		t.Fatalf("docs: %v, %v", docs, err)
	}
	return append([]string{readme}, docs...)
}

// prose is a document without its fenced blocks.
func prose(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(b), "")
}

// testsOf gives the names of the tests of the tree, by the files they are in.
func testsOf(t *testing.T) map[string][]string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	files := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			files[filepath.ToSlash(path)] = append(files[filepath.ToSlash(path)], m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	testName   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	testInFile = regexp.MustCompile("\\]\\(([^)]*_test\\.go)\\)((?:,? `(?:Test|Fuzz)\\w+`)+)")
)

func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	files := testsOf(t)
	var all []string
	for _, names := range files {
		all = append(all, names...)
	}
	for _, doc := range documents(t) {
		text := prose(t, doc)
		for _, name := range testName.FindAllString(text, -1) {
			// TestM_... stands for any name that begins so.
			if !slices.Contains(all, name) && !strings.HasSuffix(name, "_") {
				t.Errorf("%s: there is no %s", doc, name)
			}
		}
		for _, m := range testInFile.FindAllStringSubmatch(text, -1) {
			file := filepath.ToSlash(filepath.Join(filepath.Dir(doc), m[1]))
			for _, name := range testName.FindAllString(m[2], -1) {
				if !slices.Contains(files[file], name) {
					t.Errorf("%s: there is no %s in %s", doc, name, file)
				}
			}
		}
	}
	if promises := testName.FindAllString(prose(t, "docs/GUARANTEES.md"), -1); len(promises) < 30 {
		t.Errorf("docs/GUARANTEES.md names %d tests", len(promises))
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// anchorsOf gives the anchors of a document as GitHub makes them.
func anchorsOf(t *testing.T, file string) (anchors []string) {
	t.Helper()
	for _, m := range heading.FindAllStringSubmatch(prose(t, file), -1) {
		kept := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		anchors = append(anchors, kept)
	}
	return anchors
}

func TestDocumentLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, doc), -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := doc
			if path != "" {
				target = filepath.Join(filepath.Dir(doc), path)
			}
			if _, err := os.Stat(target); err != nil || filepath.IsAbs(path) || strings.HasPrefix(target, "..") {
				t.Errorf("%s: %s leads nowhere", doc, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchorsOf(t, target), anchor) {
				t.Errorf("%s: %s has no heading #%s", doc, target, anchor)
			}
		}
	}
}

// table gives the rows of the table that follows a comment which begins with
// mark; each cell as the texts in it that are set as code.
func table(t *testing.T, file, mark string) (rows [][][]string) {
	t.Helper()
	_, rest, found := strings.Cut(prose(t, file), "<!-- "+mark)
	if !found {
		t.Fatalf("%s has no table %q", file, mark)
	}
	code := regexp.MustCompile("`([^`]+)`")
	lines := strings.Split(rest, "\n")[1:]
	for _, line := range lines {
		if !strings.HasPrefix(line, "|") {
			if line == "" && len(rows) == 0 {
				continue
			}
			break
		}
		var row [][]string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			var texts []string
			for _, m := range code.FindAllStringSubmatch(cell, -1) {
				texts = append(texts, m[1])
			}
			row = append(row, append(texts, strings.TrimSpace(cell)))
		}
		rows = append(rows, row)
	}
	if len(rows) < 4 {
		t.Fatalf("%s: the table %q has %d lines", file, mark, len(rows))
	}
	return rows[2:] // behind its head
}

// codes gives the texts of a cell that are set as code.
func codes(cell []string) []string { return cell[:len(cell)-1] }

const guarantees = "docs/GUARANTEES.md"

func TestDocumentedNumbers(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, row := range table(t, guarantees, "equal numbers") {
		same := codes(row[0])
		if len(same) == 0 {
			t.Fatalf("a row without numbers: %q", row)
		}
		for _, text := range same {
			digest, err := idem.Digest(jsontext.Value(text))
			first, _ := idem.Digest(jsontext.Value(same[0]))
			if err != nil || digest != first {
				t.Errorf("%s is not the same as %s: %v", text, same[0], err)
			}
			if other := seen[digest]; other != "" && other != same[0] {
				t.Errorf("%s is the same as %s, of another row", text, other)
			}
			seen[digest] = same[0]
		}
	}
	for _, row := range table(t, guarantees, "refused numbers") {
		for _, text := range codes(row[0]) {
			if digest, err := idem.Digest(jsontext.Value(text)); err == nil {
				t.Errorf("%s is not refused: %s", text, digest)
			}
		}
	}
}

func TestDocumentedRedaction(t *testing.T) {
	t.Parallel()
	for _, row := range table(t, guarantees, "redacted names") {
		for cell, want := range map[int]int{0: 1, 1: 0} {
			for _, name := range codes(row[cell]) {
				_, pointers, err := idem.Redact(jsontext.Value(`{"` + name + `":"x"}`))
				if err != nil || len(pointers) != want {
					t.Errorf("%s: %d redacted, want %d: %v", name, len(pointers), want, err)
				}
			}
		}
	}
}

// TestDocumentedCodes holds the table of codes against idem/code.go and against
// the one table of httpapi/status.go.
func TestDocumentedCodes(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("idem/code.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`Code = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		want = append(want, m[1])
	}
	edge, err := os.ReadFile("httpapi/status.go")
	if err != nil {
		t.Fatal(err)
	}
	yes := map[string]bool{"yes": true, "no": false}
	var got []string
	for _, row := range table(t, "docs/API.md", "codes") {
		name, status, wait, newKey := codes(row[0])[0], row[1][0], row[2][0], row[3][0]
		got = append(got, name)
		code := idem.Code(name)
		if w, ok := yes[wait]; !ok || w != code.Retryable() {
			t.Errorf("%s: wait %s", name, wait)
		}
		if k, ok := yes[newKey]; !ok || k != code.SafeNewKey() {
			t.Errorf("%s: new key %s", name, newKey)
		}
		if !regexp.MustCompile(`idem\.` + constantOf(string(source), name) + `:\s+\{` + status + `,`).Match(edge) {
			t.Errorf("%s: status %s is not that of httpapi/status.go", name, status)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/API.md lists\n%q\nand not\n%q", got, want)
	}
}

// constantOf gives the name of the constant of a code.
func constantOf(source, code string) string {
	m := regexp.MustCompile(`(Code\w+)\s+Code = "` + code + `"`).FindStringSubmatch(source)
	if m == nil {
		return "no constant"
	}
	return m[1]
}
