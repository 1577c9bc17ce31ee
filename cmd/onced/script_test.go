package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"
)

// Every client command against one cluster of three, which all scripts share:
// each has keys and namespaces of its own.
func TestClusterScripts(t *testing.T) {
	t.Parallel()
	endpoints, _ := startDev(t, "--port", strconv.Itoa(freeBlock(t, 3)))
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/cluster",
			Setup: func(env *testscript.Env) error {
				env.Setenv("ONCED_ENDPOINTS", strings.Join(endpoints, ","))
				for i, e := range endpoints {
					env.Setenv("N"+strconv.Itoa(i+1), e)
				}
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"member": scriptMember,
				"until":  scriptUntil,
			},
		})
	})
}

// member VAR NAME...: the member of the JSON on the last stdout, into a
// variable; a name goes one level deeper, or into a list.
func scriptMember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: member VAR NAME...")
	}
	v := jsontext.Value(ts.ReadFile("stdout"))
	for _, name := range args[1:] {
		if i, err := strconv.Atoi(name); err == nil {
			var list []jsontext.Value
			ts.Check(json.Unmarshal(v, &list))
			if i >= len(list) {
				ts.Fatalf("no element %d in %s", i, v)
			}
			v = list[i]
			continue
		}
		var object map[string]jsontext.Value
		ts.Check(json.Unmarshal(v, &object))
		if v = object[name]; v == nil {
			ts.Fatalf("no member %s in %s", name, ts.ReadFile("stdout"))
		}
	}
	value := string(v)
	if v.Kind() == '"' {
		ts.Check(json.Unmarshal(v, &value))
	}
	ts.Setenv(args[0], value)
}

// until TEXT COMMAND...: runs onced COMMAND again and again until it prints
// TEXT, on stdout or stderr.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT COMMAND...")
	}
	self, err := exec.LookPath("onced")
	if path := ts.Getenv("PATH"); err != nil {
		self = strings.Split(path, ":")[0] + "/onced"
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		cmd := exec.Command(self, args[1:]...)
		cmd.Env = []string{"ONCED_ENDPOINTS=" + ts.Getenv("ONCED_ENDPOINTS")}
		out, _ := cmd.CombinedOutput()
		if strings.Contains(string(out), args[0]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("onced %s did not print %q within 20 s, last: %s", strings.Join(args[1:], " "), args[0], out)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// Every command has a help text with an example of itself, and takes no
// argument that it does not know.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	root := (&app{}).rootCommand()
	seen := 0
	var walk func(path []string)
	walk = func(path []string) {
		cmd, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(path) > 0 && !cmd.Hidden {
			seen++
			if !strings.Contains(cmd.Example, "onced "+path[0]) && !strings.Contains(cmd.Example, `"onced", "`+path[0]) {
				t.Errorf("%s: example: %q", strings.Join(path, " "), cmd.Example)
			}
			if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
				t.Errorf("%s: short: %q", strings.Join(path, " "), cmd.Short)
			}
			got := runCommand(t, nil, "", append(path, "--no-such-flag")...)
			if got.code != exitUsage || !strings.Contains(got.stderr, "--help") {
				t.Errorf("%s --no-such-flag: %+v", strings.Join(path, " "), got)
			}
		}
		for _, c := range cmd.Commands() {
			walk(append(append([]string(nil), path...), c.Name()))
		}
	}
	walk(nil)
	if want := 25; seen < want {
		t.Errorf("%d commands, at least %d were there once", seen, want)
	}
}

// -o json with every client command that fails: the problem is on stdout, as it
// was sent, and says the same for each.
func TestProblemsAreJSON(t *testing.T) {
	t.Parallel()
	body := strings.NewReplacer("503", "409", "idempotency_unavailable", "idempotency_stale_token").Replace(unavailableBody)
	node := newFakeNode(t, 409, body)
	for _, args := range [][]string{
		{"reserve", "order-0001"},
		{"commit", "order-0001", "--token", "1"},
		{"fail", "order-0001", "--token", "1", "--error-code", "x"},
		{"release", "order-0001", "--token", "1"},
		{"extend", "order-0001", "--token", "1"},
		{"cancel", "order-0001", "--reason", "r"},
		{"resolve", "order-0001", "--token", "1", "--verdict", "failed", "--reason", "r", "--actor", "a"},
		{"key", "get", "order-0001"},
		{"key", "ls"},
		{"ns", "ls"},
		{"ns", "get", "x"},
		{"ns", "set", "x"},
		{"ns", "rm", "x"},
		{"audit"},
		{"sweep"},
		{"node", "ls"},
	} {
		got := runCommand(t, nil, "", append(args, "-o", "json", "--endpoints", node.URL)...)
		if got.code != exitConflict || got.stdout != body+"\n" || !strings.Contains(got.stderr, "idempotency_stale_token") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// Every client command has the exit code of a cluster that is not there, and
// tells how to go on.
func TestNoClusterIsExit3(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, 503, unavailableBody)
	for _, args := range [][]string{
		{"fail", "order-0001", "--token", "1", "--error-code", "x"},
		{"extend", "order-0001", "--token", "1"},
		{"cancel", "order-0001", "--reason", "r"},
		{"resolve", "order-0001", "--token", "1", "--verdict", "failed", "--reason", "r", "--actor", "a"},
		{"sweep"},
	} {
		got := runCommand(t, nil, "", append(args, "--endpoints", node.URL)...)
		if got.code != exitUnavailable || !strings.Contains(got.stderr, "repeat the same command") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"key", "ls"}, {"ns", "ls"}, {"audit"}, {"check", "ready"}, {"check", "live"}} {
		if got := runCommand(t, nil, "", append(args, "--endpoints", node.URL)...); got.code != exitUnavailable {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// ns set changes only the version that it read.
func TestNsSetSendsWhatItRead(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, 200, `{"name":"x","version":7,"createdAt":"","updatedAt":"","policy":{}}`)
	var matches []string
	inner := node.Config.Handler
	node.Config.Handler = recordIfMatch(inner, &matches)
	if got := runCommand(t, nil, "", "ns", "set", "x", "--ttl", "1h", "--redact", "false", "--max-records", "0", "--endpoints", node.URL); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	if want := []string{"GET ", `PUT "7"`}; fmt.Sprint(matches) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", matches, want)
	}
	if want := `{"ttl":"1h","redact":false,"maxRecords":0}`; node.bodies[1] != want {
		t.Errorf("sent %s, want %s", node.bodies[1], want)
	}
}
