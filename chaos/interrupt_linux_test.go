package chaos

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// interrupted starts a command of the product, sends it s once a line of its
// stderr has the word until, and gives its exit code and what it said.
func interrupted(t *testing.T, s syscall.Signal, until string, args ...string) (code, pid int, said string) {
	t.Helper()
	binary, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = childAttributes()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The child's end is bound to this thread, which another test's goroutine,
	// run on it and locked, could end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	var text strings.Builder
	sent := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&text, lines.Text())
		if !sent && strings.Contains(lines.Text(), until) {
			sent = true
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if !sent {
		t.Errorf("%q was never said", until)
	}
	return cmd.ProcessState.ExitCode(), cmd.Process.Pid, text.String()
}

// TestAnInterruptedRunLeavesNothing: whatever a run is at, a signal ends it with
// 130, and no process, network namespace, mount or loop device stays.
func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real nodes for seconds")
	}
	needRoot(t, "ip", "nft", "nsenter", "mkfs.ext4", "losetup", "xfs_io")
	for until, s := range map[string]syscall.Signal{
		" for ":        syscall.SIGINT,  // the first fault is over, the next one at work
		"load is over": syscall.SIGTERM, // all nodes are stopped and started
		"checking ":    syscall.SIGINT,  // nothing is there any more but the history
	} {
		t.Run(until, func(t *testing.T) {
			dir := t.TempDir()
			length := "4s"
			if until == " for " {
				length = "10m"
			}
			code, pid, said := interrupted(t, s, until, "chaos", "run", "--for", length, "--faults", "isolate,linkdown,powercut",
				"--workload", Mixed, "--seed", "5", "--dir", dir)
			if code != 130 {
				t.Errorf("exit code %d: %s", code, said)
			}
			for _, ns := range netnsNames() {
				if strings.HasPrefix(ns, fmt.Sprintf("%s%d-", netnsMark, pid)) {
					t.Errorf("the namespace %s is still there", ns)
				}
			}
			if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), dir) {
				t.Error("a disk is still mounted")
			}
			if loops, _ := exec.Command("losetup", "-l", "-n", "-O", "BACK-FILE").Output(); strings.Contains(string(loops), dir) {
				t.Errorf("a loop device is still there: %s", loops)
			}
			commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, c := range commands {
				if b, _ := os.ReadFile(c); strings.Contains(string(b), dir) {
					t.Errorf("a process is still there: %q", b)
				}
			}
		})
	}
}

// TestAnInterruptedCheckEnds: a check that goes on for long ends on a signal.
func TestAnInterruptedCheckEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("lets a check go on for seconds")
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for seed := range uint64(3) {
		for _, op := range newOracle(t).hardHistory(rand.New(rand.NewPCG(seed, 13)), "mixed", 150) {
			for i := range 2000 { // the same history on many keys
				op.Key = fmt.Sprintf("key:%d:%d", seed, i)
				if err := json.MarshalWrite(w, op); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(w)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(filepath.Join(dir, "ledger.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := interrupted(t, syscall.SIGINT, "checking: ", "chaos", "check", dir); code != 130 {
		t.Errorf("exit code %d: %s", code, said)
	}
}
