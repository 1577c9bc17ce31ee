package onced_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The README is a program: this file runs it. Every fenced block marked sh is
// executed as it stands, in order, line by line in one shell, and what it
// prints is held against the block marked text that follows it, or against
// nothing. Only ports are changed, on the way in and back on the way out.

const readme = "README.md"

var updateReadme = flag.Bool("update", false, "write what the commands of README.md print into its output blocks")

const (
	devCommand = "go run ./cmd/onced dev --nodes 3"
	// devLastLine is printed when all nodes are ready.
	devLastLine = "Ctrl-C stops it."
	// scriptStart ends the first terminal before it runs: README.md says so
	// above it, because both use the same ports.
	scriptStart = "scripts/cluster.sh start"

	blockTimeout = 2 * time.Minute
	endTimeout   = 20 * time.Second
)

// notRun are the blocks that this test does not execute. The reason must stand
// in README.md too, beside the block, for the reader to see.
var notRun = map[string]string{
	"go test ./...": "it would run itself",
}

// fence is a fenced block of a Markdown file.
type fence struct {
	line   int // of the opening fence, from 1
	end    int // of the closing fence
	info   string
	text   string
	before string // the paragraph above it
	after  string // the paragraph below it
}

func fences(t *testing.T, file string) []fence {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	var all []fence
	for i := 0; i < len(lines); i++ {
		info, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		f := fence{line: i + 1, info: strings.TrimSpace(info), before: paragraph(lines, i-1, -1)}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			f.text += lines[i] + "\n"
		}
		if i == len(lines) {
			t.Fatalf("%s:%d: the block is not closed", file, f.line)
		}
		f.end, f.after = i+1, paragraph(lines, i+1, 1)
		all = append(all, f)
	}
	return all
}

// paragraph gives the lines from i on, in the direction step, up to an empty
// one; one empty line at i is passed over.
func paragraph(lines []string, i, step int) (p string) {
	if i >= 0 && i < len(lines) && lines[i] == "" {
		i += step
	}
	for ; i >= 0 && i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "```"); i += step {
		p += lines[i] + "\n"
	}
	return p
}

func TestREADME(t *testing.T) {
	for _, tool := range []string{"go", "bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the commands of %s need %s: %v", readme, tool, err)
		}
	}
	// Built first, so that `go run` has little left to do.
	if out, err := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "onced"), "./cmd/onced").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	defer endWithUs()()
	blocks := fences(t, readme)
	r := &reader{t: t, ids: newMasker(), docIDs: newMasker()}
	t.Cleanup(r.close)
	var commands []string
	for i := 0; i < len(blocks); i++ {
		f := blocks[i]
		if f.info != "sh" {
			t.Errorf("%s:%d: a block marked %q is neither a command (sh) nor the output (text) of the one above it", readme, f.line, f.info)
			continue
		}
		commands = append(commands, strings.TrimSuffix(f.text, "\n"))
		if reason, skipped := notRun[commands[len(commands)-1]]; skipped {
			if !strings.Contains(f.before+f.after, reason) {
				t.Errorf("%s:%d: the block is not run (%s), and the text beside it does not say so", readme, f.line, reason)
			}
			continue
		}
		var output *fence
		if i+1 < len(blocks) && blocks[i+1].info == "text" {
			i++
			output = &blocks[i]
		}
		r.follow(f, output)
		if t.Failed() && !*updateReadme {
			return // what follows builds on it
		}
	}
	if len(commands) < 2 || commands[0] != devCommand || commands[1] != "go test ./..." {
		t.Errorf("%s begins with %q, not with its two commands", readme, commands[:min(2, len(commands))])
	}
	r.close()
	if *updateReadme {
		r.rewrite()
	}
}

// TestREADMEBarks shows that a changed line of output is found, and that what
// is masked must still have its shape and keep its identity.
func TestREADMEBarks(t *testing.T) {
	t.Parallel()
	const real = `{"outcome":"reserved","token":"1796066656701778","attemptId":"PN3J3FBFJP6SW5Y7X6WUCL2BPZ","at":"2026-11-30T19:24:16.701Z"}` + "\n201\n1796066656701778\n"
	const same = `{"outcome":"reserved","token":"1796099999999999","attemptId":"AAAAAAAAAAAAAAAAAAAAAAAAAA","at":"2027-01-01T00:00:00.000Z"}` + "\n201\n1796099999999999\n"
	if d := difference(newMasker().mask(same), newMasker().mask(real)); d != "" {
		t.Errorf("another run is not recognised: %s", d)
	}
	for _, other := range []string{
		strings.Replace(real, "reserved", "replayed", 1),
		strings.Replace(real, "201", "200", 1),
		strings.Replace(real, "1796066656701778", "17960666567", 1),
		strings.Replace(real, "PN3J", "pn3j", 1),
		strings.Replace(real, "2026-11-30T", "2026-11-30 ", 1),
		strings.Replace(real, "1796066656701778\n", "1796066656701779\n", 1), // not the token above
		strings.TrimSuffix(real, "1796066656701778\n"),
		real + "more\n",
	} {
		if difference(newMasker().mask(other), newMasker().mask(real)) == "" {
			t.Errorf("not found:\n%s", other)
		}
	}
}

// reader does what the README says.
type reader struct {
	t       *testing.T
	base    int       // the port that stands for 4747
	first   *terminal // runs the dev cluster
	second  *shell
	ids     *masker // of what was printed
	docIDs  *masker // of what the README shows
	updates []update
	closed  bool
}

type update struct {
	command, output fence
	text            string
}

// follow executes a block and compares what it prints.
func (r *reader) follow(f fence, output *fence) {
	r.t.Helper()
	want := ""
	if output != nil {
		want = output.text
	}
	var got string
	if strings.HasPrefix(f.text, "go run ./cmd/onced dev") {
		got = r.startDev(strings.TrimSuffix(f.text, "\n"))
	} else {
		if r.second == nil {
			r.second = newShell(r.t, r.base)
		}
		if strings.Contains(f.text, scriptStart) {
			r.first.end(r.t)
		}
		got = r.second.run(f, portsIn(f.text, r.base))
	}
	got = portsOut(got, r.base)
	if output != nil {
		r.updates = append(r.updates, update{f, *output, got})
	}
	if d := difference(r.docIDs.mask(want), r.ids.mask(got)); d != "" {
		r.t.Errorf("%s:%d: %s\nprinted:\n%s", readme, f.line, d, got)
	}
}

// startDev runs the dev cluster in a terminal of its own, on a free block of
// ports, and gives what it prints when it is ready.
func (r *reader) startDev(command string) string {
	r.t.Helper()
	for range 5 {
		r.base = freePorts(r.t)
		r.first = newTerminal(r.t, command+" --port "+strconv.Itoa(r.base))
		if out, ok := r.first.printed(devLastLine, blockTimeout); ok {
			return out
		}
		r.first.end(nil)
		if !strings.Contains(r.first.errors(), "cannot be listened on") {
			break // somebody else was faster with a port only if it says so
		}
	}
	r.t.Fatalf("%s did not get to print %q:\n%s", command, devLastLine, r.first.errors())
	return ""
}

func (r *reader) close() {
	if r.closed {
		return
	}
	r.closed = true
	if r.first != nil {
		r.first.end(r.t)
	}
	if r.second != nil {
		r.second.close()
	}
}

// rewrite puts what was printed into the README.
func (r *reader) rewrite() {
	b, err := os.ReadFile(readme)
	if err != nil {
		r.t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	for i := len(r.updates) - 1; i >= 0; i-- {
		u := r.updates[i]
		rest := append([]string{strings.TrimSuffix(u.text, "\n")}, lines[u.output.end-1:]...)
		lines = append(lines[:u.output.line:u.output.line], rest...)
	}
	if err := os.WriteFile(readme, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// groups are the process groups that this test started and has not seen end.
var groups sync.Map // of int to nothing

// endWithUs ends what runs when this process is told to end: groups of their
// own do not hear of it.
func endWithUs() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, told := <-signals; !told {
			return
		}
		groups.Range(func(group, _ any) bool {
			_ = syscall.Kill(-group.(int), syscall.SIGKILL)
			return true
		})
		os.Exit(130)
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// terminal is a command that runs until Ctrl-C.
type terminal struct {
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{} // closed when it is gone; err is set before
	err   error

	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
	once   sync.Once
}

func newTerminal(t *testing.T, command string) *terminal {
	t.Helper()
	term := &terminal{cmd: exec.Command("bash", "-c", command), lines: make(chan string, 1000), ended: make(chan struct{})}
	term.cmd.Env = environment()
	// A terminal sends Ctrl-C to the group of what it runs: to `go run` and
	// to what that runs.
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	term.cmd.Stderr = term
	out, err := term.cmd.StdoutPipe()
	if err == nil {
		err = term.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	groups.Store(term.cmd.Process.Pid, nil)
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			term.lines <- s.Text()
		}
		close(term.lines)
		term.err = term.cmd.Wait()
		groups.Delete(term.cmd.Process.Pid)
		close(term.ended)
	}()
	return term
}

// Write takes what the command writes to its standard error.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stderr.Write(b)
}

func (t *terminal) errors() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stderr.String()
}

// printed waits for a line of output, and gives all up to it.
func (t *terminal) printed(last string, limit time.Duration) (out string, ok bool) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		select {
		case line, more := <-t.lines:
			if !more {
				return out, false
			}
			out += line + "\n"
			if line == last {
				return out, true
			}
		case <-late.C:
			return out, false
		}
	}
}

// end presses Ctrl-C and waits until everything is gone. With t, anything but a
// clean end is an error.
func (t *terminal) end(test *testing.T) {
	t.once.Do(func() {
		group := -t.cmd.Process.Pid
		_ = syscall.Kill(group, syscall.SIGINT)
		select {
		case <-t.ended:
		case <-time.After(endTimeout):
			_ = syscall.Kill(group, syscall.SIGKILL)
			<-t.ended
			if test != nil {
				test.Errorf("Ctrl-C did not end %s within %v", t.cmd.Args[2], endTimeout)
			}
		}
		// `go run` itself ends with 1 after Ctrl-C, whatever its program does;
		// of a program that failed it prints the exit status.
		if test != nil && (t.cmd.ProcessState.ExitCode() > 1 || strings.Contains(t.errors(), "exit status")) {
			test.Errorf("after Ctrl-C %s ended with %v\n%s", t.cmd.Args[2], t.err, t.errors())
		}
	})
}

// shell is the second terminal: commands go in as they would be pasted.
type shell struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	env   []string
	count int
}

func newShell(t *testing.T, base int) *shell {
	t.Helper()
	s := &shell{t: t, cmd: exec.Command("bash", "--noprofile", "--norc")}
	s.env = append(environment(), "CLUSTER_PORT="+strconv.Itoa(base), "CLUSTER_DIR="+t.TempDir())
	s.cmd.Env = s.env
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(r)
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	groups.Store(s.cmd.Process.Pid, nil)
	_ = w.Close()
	t.Cleanup(func() { _ = r.Close() })
	return s
}

// run pastes a block and gives all that it prints.
func (s *shell) run(f fence, commands string) string {
	s.t.Helper()
	s.count++
	mark := fmt.Sprintf("block-%d-%016x", s.count, rand.Uint64())
	if _, err := fmt.Fprintf(s.in, "%s\necho %s\n", commands, mark); err != nil {
		s.t.Fatal(err)
	}
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		var out strings.Builder
		for {
			line, err := s.out.ReadString('\n')
			if before, found := strings.CutSuffix(line, mark+"\n"); found {
				out.WriteString(before)
				done <- result{out.String(), nil}
				return
			}
			out.WriteString(line)
			if err != nil {
				done <- result{out.String(), err}
				return
			}
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			s.t.Fatalf("%s:%d: the shell ended: %v\n%s", readme, f.line, r.err, r.out)
		}
		return r.out
	case <-time.After(blockTimeout):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		s.t.Fatalf("%s:%d: not done within %v; printed:\n%s", readme, f.line, blockTimeout, (<-done).out)
		return ""
	}
}

// close ends the shell, and the processes of cluster.sh if the README was not
// followed to its end.
func (s *shell) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
	stop := exec.Command("scripts/cluster.sh", "stop")
	stop.Env = s.env
	if out, err := stop.CombinedOutput(); err != nil {
		s.t.Errorf("cluster.sh stop: %v\n%s", err, out)
	}
	groups.Delete(s.cmd.Process.Pid)
}

// environment is this process's without what would change what the commands do.
func environment() (env []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "ONCED_") && !strings.HasPrefix(kv, "CLUSTER_") {
			env = append(env, kv)
		}
	}
	return env
}

// offsets are those of the ports of three nodes, and of a gateway, its admin port
// and a service behind it, to the first one.
var offsets = []int{0, 1, 10, 11, 20, 21, 33, 34, 43}

const readmePort = 4747

// portsIn puts the ports of this run in the place of those of the README.
func portsIn(s string, base int) string { return movePorts(s, readmePort, base) }

// portsOut does the reverse.
func portsOut(s string, base int) string { return movePorts(s, base, readmePort) }

func movePorts(s string, from, to int) string {
	return regexp.MustCompile(`:\d+\b`).ReplaceAllStringFunc(s, func(port string) string {
		n, _ := strconv.Atoi(port[1:])
		for _, o := range offsets {
			if n == from+o {
				return ":" + strconv.Itoa(to+o)
			}
		}
		return port
	})
}

func freePorts(t *testing.T) int {
	t.Helper()
next:
	for range 100 {
		// Below the ports that systems give to outgoing connections.
		base := 10_000 + rand.IntN(20_000)
		for _, o := range offsets {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+o)))
			if err != nil {
				continue next
			}
			_ = l.Close()
		}
		return base
	}
	t.Fatal("no free block of ports")
	return 0
}

// masker puts names in the place of what differs from run to run. Tokens and
// ids are numbered in the order they come, so that the same one twice must be
// the same one twice in the other text too.
type masker struct {
	seen map[string]string
}

func newMasker() *masker { return &masker{map[string]string{}} }

var (
	maskToken = regexp.MustCompile(`\b[0-9]{16}\b`)
	maskID    = regexp.MustCompile(`\b(?:[A-Z2-7]{26}|[0-9a-f]{32})\b`)
	masks     = []struct {
		shape *regexp.Regexp
		name  string
	}{
		{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z`), "<time>"},
		// Replays are counted about once a second.
		{regexp.MustCompile(`"replays":[0-9]+(,"lastReplayedAt":"<time>")?`), `"replays":<number>`},
		{regexp.MustCompile(`"retryAfterMs":[0-9]+`), `"retryAfterMs":<ms>`},
		{regexp.MustCompile(`"(appliedIndex|lag|term|lastContactMs)":[0-9]+`), `"$1":<number>`},
		{regexp.MustCompile(`"stateHash":"[0-9a-f]{16}"`), `"stateHash":"<hash>"`},
		{regexp.MustCompile(`\bleader n[123]\b`), "leader n<leader>"},
		{regexp.MustCompile(`\bn[123] leads\b`), "n<leader> leads"},
		{regexp.MustCompile(`\bprocess [0-9]+\b`), "process <number>"},
		// The sweep, which comes when it comes, drops the bytes of an expired
		// outcome and so makes another version of the record.
		{regexp.MustCompile(`("status":"expired","attempt":[0-9]+,"version":)[23]\b`), "$1<2 or 3>"},
	}
)

func (m *masker) mask(s string) string {
	number := func(kind string) func(string) string {
		return func(id string) string {
			if m.seen[id] == "" {
				m.seen[id] = fmt.Sprintf("<%s %d>", kind, len(m.seen)+1)
			}
			return m.seen[id]
		}
	}
	s = maskToken.ReplaceAllStringFunc(s, number("token"))
	s = maskID.ReplaceAllStringFunc(s, number("id"))
	for _, k := range masks {
		s = k.shape.ReplaceAllString(s, k.name)
	}
	return s
}

// difference tells of the first line in which two masked texts differ, "" when
// there is none.
func difference(want, got string) string {
	a := strings.Split(strings.TrimRight(want, "\n"), "\n")
	b := strings.Split(strings.TrimRight(got, "\n"), "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y || i >= len(a) || i >= len(b) {
			return fmt.Sprintf("line %d of the output is\n\t%s\nand not\n\t%s", i+1, y, x)
		}
	}
	return ""
}
