package chaos

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bites names, for every fault, the test that shows that it really does
// something. TestRun and the runs of scripts/chaos.sh show it on nodes.
var bites = map[string]string{
	"kill": "TestAKilledProcessIsGone", "kill-all": "TestAKilledProcessIsGone", "restart": "TestRun", "rolling": "TestRun", "stop-all": "TestRun",
	"pause": "TestAStoppedProcessDoesNothing", "throttle": "TestAStoppedProcessDoesNothing",
	"isolate": "TestACutLinkCarriesNothing", "oneway": "TestACutLinkCarriesNothing", "split": "TestACutLinkCarriesNothing", "flap": "TestACutLinkCarriesNothing",
	"delay": "TestADelayedLinkIsLate", "reset": "TestAResetEndsConnections",
	"loss": "TestNamespaces", "linkdown": "TestNamespaces", "linkflap": "TestNamespaces",
	"powercut": "TestAPowerCutTakesWhatWasNotSynced", "powercut-two": "TestAPowerCutTakesWhatWasNotSynced", "powercut-all": "TestAPowerCutTakesWhatWasNotSynced",
	"diskfull": "TestAFullDiskTakesNothing", "diskhang": "TestAFrozenDiskWaits", "diskreadonly": "TestAReadOnlyDiskTakesNothing",
	"syncfails": "TestTamperedSyncs", "syncslow": "TestTamperedSyncs", "synclies": "TestALyingSyncLosesData",
	"bitflip": "TestDamage", "truncate": "TestDamage", "wipe": "TestDamage",
	"fds": "TestNoDescriptorsLeft", "cpu": "TestLittleCPU", "memory": "TestLittleMemory",
	"clockahead": "TestTheClockFileMovesTheWall", "clockbehind": "TestTheClockFileMovesTheWall", "clockrestart": "TestTheClockFileMovesTheWall",
}

func TestEveryFaultIsDescribedAndBites(t *testing.T) {
	t.Parallel()
	var source []byte
	for _, pattern := range []string{"*_test.go", "../cmd/onced/clock_chaos_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source = append(source, b...)
		}
	}
	seen := map[string]bool{}
	for _, f := range Faults() {
		if f.Name == "" || f.About == "" || f.Inject == nil || seen[f.Name] {
			t.Errorf("%q: no name of its own, no description or no injection", f.Name)
		}
		seen[f.Name] = true
		test := bites[f.Name]
		if test == "" || !bytes.Contains(source, []byte("func "+test+"(")) {
			t.Errorf("%s: the test %q that shows that it bites is missing", f.Name, test)
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d kinds of fault, at least 20 are wanted", len(seen))
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]int{"kill": 1, "kill, pause,kill": 2, "none": 0, "": 0, "links": 2} {
		if got, err := ParseFaults(list); err != nil || len(got) != want {
			t.Errorf("%q: %d faults, %v", list, len(got), err)
		}
	}
	for list, says := range map[string]string{"kil": `"kil"`, "delay,loss": "two runs"} {
		if _, err := ParseFaults(list); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// start runs a program for the length of a test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := startProcess(filepath.Join(t.TempDir(), "log"), nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// soon polls until f says yes.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return f(), nil }); err != nil {
		t.Fatalf("not within 20 s: %s", what)
	}
}

func TestAKilledProcessIsGone(t *testing.T) {
	t.Parallel()
	p := start(t, "sleep", "60")
	pid := p.pid()
	p.kill()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the process is still there: %v", err)
	}
	if code, ended := p.exit(time.Second); !ended || code != -1 {
		t.Errorf("exit code %d, %v", code, ended)
	}
}

func TestAStoppedProcessDoesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, "sh", "-c", "while :; do :; done")
	if err := p.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	soon(t, "the process is stopped", func() bool { return procState(p.pid()) == "T" })
	if err := p.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	soon(t, "the process runs again", func() bool { return procState(p.pid()) == "R" })
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), "file")
		want := bytes.Repeat([]byte("0123456789abcdef"), 1000)
		for name, damage := range map[string]func(string, *rand.Rand) (string, error){"bits": flipBits, "length": truncateFile} {
			if err := os.WriteFile(path, want, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := damage(path, rng); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, want) || name == "length" && len(got) >= len(want) {
				t.Errorf("seed %d: %s: nothing was damaged", seed, name)
			}
		}
	}
}
