package scripts_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output is what a process writes, readable while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// server is one onced server process.
type server struct {
	t              *testing.T
	port           int
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
}

func startServer(t *testing.T, port int, args ...string) *server {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, port: port, ended: make(chan struct{})}
	s.cmd = exec.Command(bin, append([]string{
		"server",
		"--http-addr", "127.0.0.1:" + strconv.Itoa(port), "--peer-addr", "127.0.0.1:" + strconv.Itoa(port+1),
	}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		select {
		case <-s.ended:
		default:
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", s.stdout.String(), s.stderr.String())
		}
	})
	return s
}

// says waits until the process wrote text.
func (s *server) says(text string) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(s.stdout.String()+s.stderr.String(), text); {
		select {
		case <-s.ended:
			s.t.Fatalf("ended without saying %q", text)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("did not say %q within 20 s", text)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

func (s *server) signal() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// exit waits for the end and gives the exit code.
func (s *server) exit() int {
	s.t.Helper()
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		s.t.Fatal("did not end within 20 s")
		return 0
	}
}

// reserve asks for a key and gives the status and the body.
func (s *server) reserve(key, more string) (int, string, error) {
	url := fmt.Sprintf("http://127.0.0.1:%d/v1/namespaces/default/reserve", s.port)
	res, err := http.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q%s}`, key, more)))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// The life of one node: first words, a data directory of its own, a stop in
// good order, and its state after it.
func TestServer(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	port := freeBlock(t)
	s := startServer(t, port, "--data-dir", data)
	s.says(fmt.Sprintf("node n1, API http://127.0.0.1:%d, other nodes at 127.0.0.1:%d, data in %s\n", port, port+1, data))
	s.says("cluster n1 ready, leader n1, can lose 0 nodes\n")
	if status, body, err := s.reserve("order-0001", ""); status != 201 {
		t.Fatal(status, body, err)
	}

	second := startServer(t, freeBlock(t), "--data-dir", data)
	if code := second.exit(); code != 78 || !strings.Contains(second.stderr.String(), "in use by another process") {
		t.Errorf("second process on the same data: exit %d", code)
	}
	busy := startServer(t, port, "--data-dir", filepath.Join(t.TempDir(), "other"))
	if code := busy.exit(); code != 78 || !strings.Contains(busy.stderr.String(), "another with --http-addr") {
		t.Errorf("second process on the same port: exit %d", code)
	}

	s.signal()
	if code := s.exit(); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	again := startServer(t, port, "--data-dir", data, "--log-format", "json")
	again.says("cluster n1 ready")
	if status, body, err := again.reserve("order-0001", ""); status != 409 || !strings.Contains(body, "idempotency_in_flight") {
		t.Error(status, body, err)
	}
	other := startServer(t, freeBlock(t), "--data-dir", filepath.Join(data, "none"), "--node-id", "n/1")
	if code := other.exit(); code != 78 || !strings.Contains(other.stderr.String(), "--node-id") {
		t.Errorf("malformed id: exit %d", code)
	}
}

// A node whose cluster is not complete says whom it waits for, is alive, not
// ready, and can be stopped.
func TestServerWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	port := freeBlock(t)
	s := startServer(t, port, "--data-dir", t.TempDir(), "--cluster",
		fmt.Sprintf("n1=127.0.0.1:%d,n2=127.0.0.1:%d,n3=127.0.0.1:%d", port+1, port+11, port+21))
	s.says("not ready yet: first start: waiting for all members")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, res.StatusCode, want)
		}
	}
	s.signal()
	if code := s.exit(); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
}

// parked starts a duplicate that waits for the first attempt, and returns once
// the node has it.
func parked(t *testing.T, s *server) (answer chan string) {
	t.Helper()
	if status, body, err := s.reserve("order-0001", ""); status != 201 {
		t.Fatal(status, body, err)
	}
	answer = make(chan string, 1)
	conn := make(chan struct{})
	go func() {
		close(conn)
		status, body, err := s.reserve("order-0001", `,"wait":"60s"`)
		answer <- fmt.Sprint(status, " ", body, err)
	}()
	<-conn
	// It is parked when it was not answered: nothing tells from outside.
	select {
	case a := <-answer:
		t.Fatal("not parked:", a)
	case <-time.After(300 * time.Millisecond):
	}
	return answer
}

// A stop answers who still waits, instead of breaking off.
func TestServerStopAnswersTheParked(t *testing.T) {
	t.Parallel()
	s := startServer(t, freeBlock(t), "--data-dir", t.TempDir())
	s.says("ready")
	answer := parked(t, s)
	s.signal()
	if a := <-answer; !strings.HasPrefix(a, "409 ") && !strings.HasPrefix(a, "503 ") {
		t.Errorf("answered: %s", a)
	}
	if code := s.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A second signal does not wait for anything.
func TestServerSecondSignal(t *testing.T) {
	t.Parallel()
	s := startServer(t, freeBlock(t), "--data-dir", t.TempDir())
	s.says("cluster n1 ready")
	parked(t, s)
	s.signal()
	s.says("stopping")
	s.signal()
	if code := s.exit(); code != 130 {
		t.Errorf("exit %d", code)
	}
}
