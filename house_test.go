// Package onced_test holds the tests on the house itself: who may know whom,
// what the pure packages may not touch, and which versions are pinned.
package onced_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/onced/onced"

// arrows is every allowed import between the packages of the module, by their
// top-level folder. A folder that is not here has no place in the house yet.
var arrows = map[string][]string{
	"idem":    {},
	"fsm":     {"idem"},
	"cluster": {"idem", "fsm"},
	"httpapi": {"idem", "fsm"},
	"client":  {"idem"},
	"bench":   {"idem"},
	"gateway": {"client", "idem"},
	"chaos":   {"client", "idem"},
	"cmd":     {"idem", "fsm", "cluster", "httpapi", "client", "gateway", "chaos", "bench"},
	"scripts": {"idem", "bench"},
	"e2e":     {"idem", "fsm", "cluster", "httpapi"},
	// What a reader copies: a program of its own that links the client or the
	// middleware.
	"examples": {"client", "gateway"},
}

// barred is what a folder must not reach, even through others.
var barred = map[string][]string{
	"idem":    {"github.com/hashicorp/", "go.etcd.io/", "net", "net/http", "github.com/gorilla/"},
	"fsm":     {"github.com/hashicorp/", "go.etcd.io/", "net", "net/http", "github.com/gorilla/"},
	"cluster": {"github.com/gorilla/", module + "/httpapi"},
	"httpapi": {"github.com/hashicorp/", "go.etcd.io/", module + "/cluster"},
	"client": {
		"github.com/hashicorp/", "go.etcd.io/", "github.com/gorilla/", "github.com/prometheus/", "google.golang.org/",
		module + "/cluster", module + "/httpapi", module + "/fsm",
	},
	// The middleware is linked by other people's services, as the client is.
	"gateway": {
		"github.com/hashicorp/", "go.etcd.io/", "github.com/gorilla/", "github.com/prometheus/", "google.golang.org/",
		module + "/cluster", module + "/httpapi", module + "/fsm",
	},
}

func golist(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

// folder gives the top-level folder of a package of this module.
func folder(pkg string) string {
	rest, ok := strings.CutPrefix(pkg, module+"/")
	if !ok {
		return ""
	}
	top, _, _ := strings.Cut(rest, "/")
	return top
}

func TestArrows(t *testing.T) {
	t.Parallel()
	for _, pkg := range golist(t, "./...") {
		top := folder(pkg)
		if top == "" {
			continue // the tests beside go.mod
		}
		allowed, known := arrows[top]
		if !known {
			t.Errorf("%s: no arrow is drawn for the folder %s", pkg, top)
			continue
		}
		for _, imp := range golist(t, "-f", `{{join .Imports "\n"}}`, pkg) {
			if to := folder(imp); to != "" && to != top && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: only %v are allowed", pkg, imp, allowed)
			}
		}
	}
	for top, bars := range barred {
		for _, dep := range golist(t, "-deps", "./"+top+"/...") {
			for _, bar := range bars {
				if dep == bar || strings.HasSuffix(bar, "/") && strings.HasPrefix(dep, bar) || strings.HasPrefix(bar, module) && strings.HasPrefix(dep, bar) {
					t.Errorf("%s reaches %s", top, dep)
				}
			}
		}
	}
}

// TestPurity holds idem and fsm free of clocks, randomness, environment, files,
// logs and network: the same commands must give the same bytes everywhere.
func TestPurity(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"idem", "fsm"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "mutant_") {
				continue // a mutant is what must not be, and is in no normal build
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range impurities(t, file, src) {
				if bad != seededIndex {
					t.Errorf("%s", bad)
				}
			}
		}
	}
}

// seededIndex is the one exception: where the index keeps a record is chosen by a
// seed, so that nobody can make keys that collide, and nothing is ever read in the
// order of the index.
var seededIndex = filepath.Join("fsm", "index.go") + ": imports hash/maphash"

// TestPurityBarks shows that the check finds what it looks for.
func TestPurityBarks(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"package x\nimport \"time\"\nvar _ = time.Now()",
		"package x\nimport \"math/rand/v2\"\nvar _ = rand.Int()",
		"package x\nimport \"os\"\nvar _ = os.Getenv(\"A\")",
		"package x\nimport clock \"time\"\nvar f = clock.Since",
		"package x\nimport \"time\"\nfunc f() { go func() {}(); _ = time.Second }",
	} {
		if len(impurities(t, "x.go", []byte(src))) == 0 {
			t.Errorf("nothing found in:\n%s", src)
		}
	}
}

// impurities lists what a pure package must not contain.
func impurities(t *testing.T, name string, src []byte) (bad []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	timeName := ""
	for _, imp := range f.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		switch path {
		case "os", "log", "log/slog", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "os/exec", "syscall", "runtime", "hash/maphash":
			bad = append(bad, name+": imports "+path)
		case "time":
			timeName = "time"
			if imp.Name != nil {
				timeName = imp.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			id, ok := x.X.(*ast.Ident)
			if ok && timeName != "" && id.Name == timeName {
				switch x.Sel.Name {
				case "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Local", "LoadLocation":
					bad = append(bad, fset.Position(x.Pos()).String()+": time."+x.Sel.Name)
				}
			}
		case *ast.GoStmt:
			bad = append(bad, fset.Position(x.Pos()).String()+": starts a goroutine")
		}
		return true
	})
	return bad
}

// TestPins guards the versions that work together: raft v1.8.0 needs a
// go-metrics without the compat package that this raft-boltdb imports, and
// bbolt before v1.4.3 misses fixes for empty and damaged pages.
func TestPins(t *testing.T) {
	t.Parallel()
	version := func(mod string) string {
		v := golist(t, "-m", "-f", "{{.Version}}{{if .Replace}} replaced{{end}}", mod)
		return strings.Join(v, " ")
	}
	for mod, want := range map[string]string{
		"github.com/hashicorp/raft":           "v1.7.3",
		"github.com/hashicorp/raft-boltdb/v2": "v2.3.1",
		"github.com/gorilla/mux":              "v1.8.1",
	} {
		if got := version(mod); got != want {
			t.Errorf("%s is %s, pinned to %s", mod, got, want)
		}
	}
	minor := func(v string) (n [3]int) {
		for i, part := range strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3) {
			n[i], _ = strconv.Atoi(part)
		}
		return n
	}
	metrics := minor(version("github.com/hashicorp/go-metrics"))
	if slices.Compare(metrics[:], []int{0, 7, 0}) >= 0 {
		t.Errorf("hashicorp/go-metrics is %v: v0.7.0 has no compat package", metrics)
	}
	bolt := minor(version("go.etcd.io/bbolt"))
	if slices.Compare(bolt[:], []int{1, 4, 3}) < 0 {
		t.Errorf("bbolt is %v: at least v1.4.3", bolt)
	}
}
