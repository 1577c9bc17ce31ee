package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// onced exec, as a fleet runs it: processes of their own against three nodes.
func TestExec(t *testing.T) {
	t.Parallel()
	n := dev(t)
	dir := t.TempDir()
	endpoints := make([]string, 3)
	for i := range endpoints {
		endpoints[i] = "http://" + address(n.port[i])
	}
	start := func(key string, args ...string) *process {
		return startProcess(t, "exec", append([]string{"exec", "--endpoints", strings.Join(endpoints, ","), "--key", key}, args...)...)
	}
	is := func(t *testing.T, p *process, code int, stdout, stderr string) {
		t.Helper()
		if got := p.exit(); got != code || p.stdout.String() != stdout || !strings.Contains(p.stderr.String(), stderr) {
			t.Errorf("exit %d, %q, %q; want %d, %q, %q", got, p.stdout.String(), p.stderr.String(), code, stdout, stderr)
		}
	}
	t.Run("once in the fleet", func(t *testing.T) {
		marks := filepath.Join(dir, "marks")
		script := fmt.Sprintf("echo ran >> %s; sleep 0.3; echo out; echo err >&2; exit 3", marks)
		var all []*process
		for range 8 {
			all = append(all, start("job-0001", "--", "sh", "-c", script))
		}
		for _, p := range all {
			is(t, p, 3, "out\n", "err\n")
		}
		is(t, start("job-0001", "--", "sh", "-c", script), 3, "out\n", "err\n")
		if b, _ := os.ReadFile(marks); string(b) != "ran\n" {
			t.Errorf("ran %q", b)
		}
	})
	t.Run("other arguments", func(t *testing.T) {
		is(t, start("job-0001", "--", "true"), 125, "", "idempotency_key_conflict")
	})
	t.Run("cannot start", func(t *testing.T) {
		file := filepath.Join(dir, "plain")
		if err := os.WriteFile(file, []byte("no program"), 0o600); err != nil {
			t.Fatal(err)
		}
		is(t, start("job-0002", "--", "no-such-command-anywhere"), 127, "", "given back")
		is(t, start("job-0002", "--", "no-such-command-anywhere"), 127, "", "given back") // it was
		is(t, start("job-0003", "--", file), 126, "", "given back")
		is(t, start("job-0004", "--", filepath.Join(dir, "nothing")), 127, "", "given back")
		if err := os.Chmod(file, 0o700); err != nil {
			t.Fatal(err)
		}
		is(t, start("job-0003", "--", file), 126, "", "given back") // exec format error
	})
	t.Run("bytes", func(t *testing.T) {
		for range 2 {
			is(t, start("job-0005", "--", "printf", `\000\377\r\n`), 0, "\x00\xff\r\n", "")
		}
	})
	t.Run("too much to keep", func(t *testing.T) {
		big := strings.Repeat("y\n", 50_000)
		is(t, start("job-0006", "--", "sh", "-c", "yes | head -n 50000"), 0, big, "")
		is(t, start("job-0006", "--", "sh", "-c", "yes | head -n 50000"), 0, "", "too large to keep")
	})
	t.Run("SIGTERM goes to the command", func(t *testing.T) {
		p := start("job-0007", "--", "sh", "-c", `trap "echo got; exit 7" TERM; echo up; while :; do sleep 0.05; done`)
		eventually(t, "it runs", func() bool { return strings.Contains(p.stdout.String(), "up") })
		p.signal(syscall.SIGTERM)
		is(t, p, 7, "up\ngot\n", "")
		q := start("job-0008", "--", "sh", "-c", "echo up; exec sleep 100")
		eventually(t, "it runs", func() bool { return strings.Contains(q.stdout.String(), "up") })
		q.signal(syscall.SIGTERM)
		is(t, q, 128+15, "up\n", "")
		is(t, start("job-0008", "--", "sh", "-c", "echo up; exec sleep 100"), 128+15, "up\n", "")
	})
	t.Run("a killed runner leaves it uncertain", func(t *testing.T) {
		pid := filepath.Join(dir, "pid")
		args := []string{"--lease", "500ms", "--", "sh", "-c", "echo $$ > " + pid + "; echo up; exec sleep 100"}
		p := start("job-0009", args...)
		eventually(t, "it runs", func() bool { return strings.Contains(p.stdout.String(), "up") })
		is(t, start("job-0009", append([]string{"--wait", "0s"}, args...)...), 125, "", "idempotency_in_flight")
		// A waiter is told the moment that the lease is over.
		waiter := start("job-0009", args...)
		p.signal(syscall.SIGKILL)
		<-p.ended
		is(t, waiter, 125, "", "idempotency_uncertain")
		again := start("job-0009", args...)
		is(t, again, 125, "", "onced resolve job-0009")
		// The command died with it: a person who reads "uncertain" must not find
		// it at work (Linux).
		b, err := os.ReadFile(pid)
		var child int
		if _, serr := fmt.Sscan(string(b), &child); err != nil || serr != nil || child <= 1 {
			t.Fatalf("no pid: %q %v %v", b, err, serr)
		}
		eventually(t, "the command is gone", func() bool { return syscall.Kill(child, 0) != nil })
	})
	t.Run("cluster away", func(t *testing.T) {
		p := startProcess(t, "exec", "exec", "--endpoints", "http://127.0.0.1:1", "--timeout", "300ms", "--key", "job-0010", "--", "echo", "ran")
		is(t, p, 125, "", "idempotency_unavailable")
	})
	t.Run("interrupted while it waits", func(t *testing.T) {
		p := start("job-0011", "--", "sh", "-c", "echo up; sleep 0.7")
		eventually(t, "it runs", func() bool { return strings.Contains(p.stdout.String(), "up") })
		w := start("job-0011", "--", "sh", "-c", "echo up; sleep 0.7")
		began := time.Now()
		var once sync.Once
		eventually(t, "it ends", func() bool {
			if time.Since(began) > 200*time.Millisecond {
				once.Do(func() { w.signal(syscall.SIGTERM) })
			}
			return !w.running()
		})
		if code := w.exit(); code != 125 && code != 0 {
			t.Errorf("exit %d: %s", code, w.stderr.String())
		}
		is(t, p, 0, "up\n", "")
	})
}
