package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
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

// tail gives the last lines, for a failure message.
func (o *output) tail() string {
	lines := strings.Split(strings.TrimRight(o.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// process is one onced process.
type process struct {
	t              testing.TB
	name           string
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
}

// startProcess runs onced; the test's end ends it, whatever became of it.
func startProcess(t testing.TB, name string, args ...string) *process {
	t.Helper()
	bin, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: name, cmd: exec.Command(bin, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = ownProcess()
	for _, v := range os.Environ() {
		// Settings of the server's own, but for the store that the tests are run with.
		if !strings.HasPrefix(v, "ONCED_") || strings.HasPrefix(v, "ONCED_LOG_STORE=") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s, exit %d, end of its log:\n%s", name, p.cmd.ProcessState.ExitCode(), p.stderr.tail())
		}
	})
	return p
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends s to this very process; one that has ended is left alone.
func (p *process) signal(s syscall.Signal) {
	if p.running() {
		_ = p.cmd.Process.Signal(s)
	}
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// exit waits for the process to end by itself and gives its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		p.t.Fatalf("%s did not end within 20 s", p.name)
		return 0
	}
}

// eventually polls until f says that it is so.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		breathe()
	}
}

// breathe is the pause between two looks at a condition.
func breathe() {
	timer := time.NewTimer(3 * time.Millisecond)
	<-timer.C
}

// ports hands out blocks that nobody listens on at the moment, each once.
var ports struct {
	mu   sync.Mutex
	next int
}

// freeBlock gives the base of a free block: HTTP on base, base+10, base+20,
// peers on the port after each. All lie below the ports that systems give to
// outgoing connections.
func freeBlock(t testing.TB) int {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if ports.next == 0 {
		ports.next = 12000 + 30*rand.IntN(500)
	}
	for range 300 {
		base := ports.next
		if ports.next += 30; ports.next > 32000 {
			ports.next = 12000
		}
		if blockIsFree(base) {
			return base
		}
	}
	t.Fatal("no free block of ports")
	return 0
}

func blockIsFree(base int) bool {
	for _, d := range []int{0, 1, 10, 11, 20, 21} {
		l, err := net.Listen("tcp", address(base+d))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// dev starts `onced dev --nodes 3` in memory and gives its nodes.
func dev(t testing.TB) *nodes {
	t.Helper()
	for range 5 {
		port := freeBlock(t)
		p := startProcess(t, "dev", "dev", "--nodes", "3", "--port", strconv.Itoa(port), "-o", "json")
		eventually(t, "dev is ready", func() bool { return !p.running() || strings.Contains(p.stdout.String(), "\n") })
		if p.running() {
			return newNodes(t, port)
		}
		if p.exit() != 78 {
			t.Fatalf("dev ended with %d: %s", p.exit(), p.stderr.tail())
		}
	}
	t.Fatal("five free blocks of ports were taken by others")
	return nil
}

// trio is three `onced server` processes with disks.
type trio struct {
	*nodes
	dir  string
	base int
	args []string
	proc [3]*process
}

// startTrio starts all three and returns when all are ready.
func startTrio(t testing.TB, args ...string) *trio {
	t.Helper()
	for range 5 {
		c := &trio{dir: t.TempDir(), base: freeBlock(t), args: args}
		c.nodes = newNodes(t, c.base)
		c.startAll()
		busy := false
		eventually(t, "three nodes are ready", func() bool {
			ready := true
			for i := range 3 {
				busy = busy || !c.proc[i].running() && strings.Contains(c.proc[i].stderr.String(), "cannot be listened on")
				ready = ready && c.get(i, "/readyz").status == 200
			}
			return ready || busy
		})
		if !busy {
			return c
		}
		c.stopAll()
	}
	t.Fatal("five free blocks of ports were taken by others")
	return nil
}

// start starts node i (0 to 2) on whatever data it has.
func (c *trio) start(i int) *process {
	c.t.Helper()
	id := "n" + strconv.Itoa(i+1)
	p := startProcess(c.t, id, append([]string{
		"server", "--node-id", id, "--data-dir", c.data(i),
		"--http-addr", address(c.base + 10*i), "--peer-addr", address(c.base + 10*i + 1),
		"--cluster", fmt.Sprintf("n1=%s,n2=%s,n3=%s", address(c.base+1), address(c.base+11), address(c.base+21)),
	}, c.args...)...)
	c.proc[i] = p
	return p
}

func (c *trio) data(i int) string { return c.dir + "/n" + strconv.Itoa(i+1) }

func (c *trio) startAll() {
	for i := range 3 {
		c.start(i)
	}
}

// stopAll stops all three in good order.
func (c *trio) stopAll() {
	c.t.Helper()
	for _, p := range c.proc {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range c.proc {
		p.exit()
	}
}

// awaitReady waits until the nodes answer /readyz with 200.
func (c *trio) awaitReady(which ...int) {
	c.t.Helper()
	for _, i := range which {
		eventually(c.t, fmt.Sprintf("n%d is ready", i+1), func() bool {
			if !c.proc[i].running() {
				c.t.Fatalf("n%d ended with %d instead of getting ready", i+1, c.proc[i].exit())
			}
			return c.get(i, "/readyz").status == 200
		})
	}
}
