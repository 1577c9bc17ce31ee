package main

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const operations = "../../docs/OPERATIONS.md"

// The commands that OPERATIONS.md has people type at night exist, with the
// flags that they are typed with.
func TestOperationsNamesRealCommands(t *testing.T) {
	t.Parallel()
	root := (&app{}).rootCommand()
	flag := regexp.MustCompile(`(?:^|\s)--([a-z-]+)`)
	seen := 0
	for _, line := range onceds(t) {
		words := strings.Fields(line)
		if words[1] == "backup" {
			continue // named as not built yet
		}
		cmd, _, err := root.Find(words[1:])
		if err != nil || cmd == root || cmd.HasSubCommands() {
			t.Errorf("no such command: %s", line)
			continue
		}
		for _, m := range flag.FindAllStringSubmatch(line, -1) {
			if cmd.Flags().Lookup(m[1]) == nil && m[1] != "help" {
				t.Errorf("%s has no --%s: %s", cmd.CommandPath(), m[1], line)
			}
		}
		seen++
	}
	if seen < 20 {
		t.Errorf("only %d commands found", seen)
	}
}

// onceds gives the command lines of OPERATIONS.md, in code and in prose.
func onceds(t *testing.T) (lines []string) {
	t.Helper()
	b, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	code := false
	inline := regexp.MustCompile("`(onced [^`]+)`")
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		if code {
			line, _, _ = strings.Cut(line, " #")
			for _, part := range strings.Split(line, "until ") {
				if strings.HasPrefix(part, "onced ") {
					part, _, _ = strings.Cut(part, " >")
					lines = append(lines, part)
				}
			}
			continue
		}
		for _, m := range inline.FindAllStringSubmatch(line, -1) {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// The metrics and checks that OPERATIONS.md tells to watch are there, and no
// check is left out.
func TestOperationsNamesRealMetrics(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	// Two nodes, for the figures about peers.
	endpoints, _ := startDev(t, "--nodes", "2", "--port", strconv.Itoa(freeBlock(t, 2)))
	if got := runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", endpoints[0]); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	get := func(path string) string {
		res, err := http.Get(endpoints[0] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	metrics := get("/metrics")
	for _, name := range regexp.MustCompile(`onced_[a-z_]+`).FindAllString(text, -1) {
		if !strings.Contains(metrics, "\n"+name+" ") && !strings.Contains(metrics, "\n"+name+"{") {
			t.Errorf("no metric %s", name)
		}
	}
	checks := regexp.MustCompile(`"name":"([A-Za-z]+)"`).FindAllStringSubmatch(get("/readyz?verbose"), -1)
	if len(checks) < 5 {
		t.Errorf("checks: %v", checks)
	}
	for _, c := range checks {
		if !strings.Contains(text, "| `"+c[1]+"` |") {
			t.Errorf("the check %s is not explained", c[1])
		}
	}
	if !strings.Contains(text, "| `staying` |") {
		t.Error("the check of the drain is not explained")
	}
}

// The example of a configuration is one that server takes.
func TestSystemdExample(t *testing.T) {
	t.Parallel()
	got := runCommand(t, nil, "", "config", "validate", "--config", "../../scripts/systemd/onced.toml.example")
	if got.code != exitOK || !strings.Contains(got.stdout, "10.0.0.1:4747") {
		t.Errorf("%+v", got)
	}
	unit, err := os.ReadFile("../../scripts/systemd/onced.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ExecStart=/usr/local/bin/onced server --config ", "RestartPreventExitStatus=70 78\n", "TimeoutStopSec="} {
		if !strings.Contains(string(unit), line) {
			t.Errorf("no %q in the unit", line)
		}
	}
}
