// Package scripts_test runs scripts/cluster.sh, and through it the real binary
// as real processes.
package scripts_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary builds onced once for all tests of the package.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "onced-test-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "onced")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/onced").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// sh is cluster.sh with variables of its own.
type sh struct {
	t    *testing.T
	dir  string
	port int
	cwd  string
	env  []string
}

func newCluster(t *testing.T) *sh {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster with a space")
	port := freeBlock(t)
	c := &sh{t: t, dir: dir, port: port, cwd: t.TempDir(), env: []string{
		"CLUSTER_DIR=" + dir, "CLUSTER_BIN=" + bin, "CLUSTER_PORT=" + strconv.Itoa(port),
		"ONCED_DRAIN_DELAY=0s", // nobody calls these nodes
	}}
	t.Cleanup(func() {
		if got := c.try("stop"); got.code != 0 {
			t.Errorf("stop: %+v", got)
		}
		if t.Failed() {
			for _, n := range []string{"n1", "n2", "n3"} {
				b, _ := os.ReadFile(filepath.Join(dir, n+".log"))
				t.Logf("%s.log:\n%s", n, b)
			}
		}
	})
	return c
}

type ran struct {
	code           int
	stdout, stderr string
}

// try runs one command from a directory that is not the project's.
func (c *sh) try(args ...string) ran {
	c.t.Helper()
	script, err := filepath.Abs("cluster.sh")
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(script, args...)
	cmd.Dir = c.cwd
	cmd.Env = append(os.Environ(), c.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		c.t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (c *sh) run(args ...string) string {
	c.t.Helper()
	got := c.try(args...)
	if got.code != 0 {
		c.t.Fatalf("cluster.sh %s: %+v", strings.Join(args, " "), got)
	}
	return got.stdout
}

// fails wants the command to end with 1 and say so.
func (c *sh) fails(says string, args ...string) {
	c.t.Helper()
	if got := c.try(args...); got.code != 1 || !strings.Contains(got.stderr, says) {
		c.t.Errorf("cluster.sh %s: %+v, want exit 1 and %q", strings.Join(args, " "), got, says)
	}
}

func (c *sh) endpoint(n int) string { return "http://127.0.0.1:" + strconv.Itoa(c.port+10*(n-1)) }

func (c *sh) httpStatus(n int, path string) int {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(c.endpoint(n) + path)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func (c *sh) pid(n int) int {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("n%d.pid", n)))
	if err != nil {
		c.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(b))[0])
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

func (c *sh) eventually(what string, f func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

func freeBlock(t *testing.T) int {
	t.Helper()
next:
	for range 100 {
		// Below the ports that systems give to outgoing connections.
		base := 10_000 + rand.IntN(20_000)
		for _, offset := range []int{0, 1, 10, 11, 20, 21} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+offset)))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return base
	}
	t.Fatal("no free block of ports")
	return 0
}

// The life of a cluster, command by command.
func TestClusterScript(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	want := c.endpoint(1) + "\n" + c.endpoint(2) + "\n" + c.endpoint(3) + "\n"
	if got := c.run("endpoints"); got != want {
		t.Errorf("endpoints before start: %s", got)
	}
	if got := c.run("status"); strings.Count(got, "stopped") != 3 {
		t.Errorf("status before start: %s", got)
	}
	c.fails("n2 is not running", "kill", "2")

	c.run("start", "--", "--raft-multiplier", "3")
	for n := 1; n <= 3; n++ {
		if got := c.httpStatus(n, "/readyz"); got != 200 {
			t.Errorf("n%d: /readyz answers %d after start", n, got)
		}
	}
	first := c.pid(1)
	if got := c.run("start"); !strings.Contains(got, "already running") || c.pid(1) != first {
		t.Errorf("second start: %s", got)
	}
	leader := strings.TrimSuffix(c.run("leader"), "\n")
	if leader != "1" && leader != "2" && leader != "3" {
		t.Fatalf("leader printed %q", leader)
	}
	if got := c.run("status"); strings.Count(got, "ready") != 3 || strings.Count(got, "leads") != 1 {
		t.Errorf("status: %s", got)
	}

	// kill: another leads; the arguments of start are kept by restart.
	c.run("kill", "n"+leader)
	second := strings.TrimSuffix(c.run("leader"), "\n")
	if second == leader {
		t.Errorf("n%s is killed and leads", leader)
	}
	if got := c.try("start"); got.code != 0 || !strings.Contains(got.stdout, "started n"+leader) {
		t.Errorf("start with one missing: %+v", got)
	}
	n, _ := strconv.Atoi(leader)
	before := c.pid(n)
	c.run("restart", leader)
	if c.httpStatus(n, "/healthz") != 200 || c.pid(n) == before {
		t.Errorf("restart of a running node: process %d, then %d", before, c.pid(n))
	}
	if runtime.GOOS == "linux" {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.pid(n)))
		if !bytes.Contains(args, []byte("--raft-multiplier\x003\x00")) {
			t.Errorf("restart forgot the arguments: %q", args)
		}
	}

	// pause: it neither answers nor leads; resume: it does again.
	paused, _ := strconv.Atoi(second)
	c.run("pause", second)
	if third := c.run("leader"); third == second+"\n" {
		t.Errorf("n%s is paused and leads", second)
	}
	if got := c.run("status"); !strings.Contains(got, "paused") {
		t.Errorf("status: %s", got)
	}
	if got := c.httpStatus(paused, "/healthz"); got != 0 {
		t.Errorf("a paused node answers %d", got)
	}
	c.run("resume", "n"+second)
	c.eventually("the resumed node is ready", func() bool { return c.httpStatus(paused, "/readyz") == 200 })
	c.run("pause", second)
	c.run("restart", second) // a paused one too

	// Bad input changes nothing.
	c.fails("which node", "kill")
	c.fails("which node", "kill", "4")
	c.fails("unknown command", "begin")
	c.fails("come after --", "start", "--x")
	c.fails("takes no arguments", "stop", "--", "--x")
	c.fails("n1 runs", "wipe", "1")
	elsewhere := *c
	elsewhere.env = append(append([]string(nil), c.env...), "CLUSTER_PORT="+strconv.Itoa(freeBlock(t)))
	elsewhere.fails("stop them first", "start")

	// stop leaves data and logs, and no process.
	pids := []int{c.pid(1), c.pid(2), c.pid(3)}
	c.run("stop")
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d runs after stop", pid)
		}
	}
	for _, f := range []string{"n1", "n2.log", "n3"} {
		if _, err := os.Stat(filepath.Join(c.dir, f)); err != nil {
			t.Error(err)
		}
	}
	c.run("stop")
	c.run("start")
}

// alive tells whether a process runs; a dead one that nobody reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

// An empty disk under a known id is refused with the sentence that tells what
// to do, having answered nothing (raft-traps.md R34/R35, B09).
func TestB09_WipedNodeIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.run("start")
	c.run("kill", "3")
	c.run("wipe", "3")
	if _, err := os.Stat(filepath.Join(c.dir, "n3")); !os.IsNotExist(err) {
		t.Errorf("wipe left its data: %v", err)
	}
	c.fails("n3 was a member of this cluster with other data. Put the old disk back, or remove n3 and add the machine under a new id.", "restart", "3")
	c.fails("ended instead of answering /healthz: n3", "restart", "n3")
	if got := c.httpStatus(1, "/readyz"); got != 200 {
		t.Errorf("n1 answers %d", got)
	}
}

// A process id that was given to another process is never signalled.
func TestClusterScriptSparesStrangers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	defer func() {
		_ = stranger.Process.Kill()
		<-ended
	}()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"%d 1\n", "%d\n", "%d \n"} {
		if err := os.WriteFile(filepath.Join(c.dir, "n1.pid"), fmt.Appendf(nil, line, stranger.Process.Pid), 0o600); err != nil {
			t.Fatal(err)
		}
		c.fails("n1 is not running", "kill", "1")
		c.fails("n1 is not running", "pause", "1")
		c.run("stop")
	}
	select {
	case err := <-ended:
		ended <- err
		t.Error("a process that is not ours was ended:", err)
	default:
	}
}

// A start that cannot be fails with the reason from the log.
func TestClusterScriptStartFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port+10)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.fails(fmt.Sprintf("--http-addr 127.0.0.1:%d cannot be listened on: address already in use", c.port+10), "start")
}

// Without a binary nothing but start does anything: no command builds.
func TestClusterScriptBuildsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.env = append(c.env, "CLUSTER_BIN=")
	c.fails("no binary: run cluster.sh start first", "restart", "1")
}
