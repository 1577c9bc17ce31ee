package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one server that this program started, and ends by its id.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // path of what it printed
	gone chan struct{}
}

// launch starts a program in dir; what it prints goes to NAME.log there. It has
// a process group of its own, so that Ctrl-C reaches it through stop only, and
// it ends with this program even when that is killed: the kernel ties this to
// the thread that calls, which is why main stays on its thread.
func launch(dir, name string, owner *syscall.Credential, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), gone: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: owner}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended tells, with the last lines that it printed, that the process is no more.
func (p *process) ended() error {
	select {
	case <-p.gone:
	default:
		return nil
	}
	said, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("%s ended (%s):\n%s", p.name, p.cmd.ProcessState, strings.Join(lines[max(0, len(lines)-8):], "\n"))
}

// stop asks all to end, and kills after 10 s those that did not.
func stop(how syscall.Signal, all ...*process) {
	for _, p := range all {
		_ = p.cmd.Process.Signal(how)
	}
	for _, p := range all {
		select {
		case <-p.gone:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.gone
		}
	}
}

// await calls ready every 50 ms until it gives nil; it gives up when a process
// has ended, after 30 s, or with ctx.
func await(ctx context.Context, what string, all []*process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range all {
			if ended := p.ended(); ended != nil {
				return ended
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", what, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// freePorts gives n ports of loopback that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end: no port is given twice
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// userHZ is the unit of /proc/PID/stat on every Linux that Go runs on.
const userHZ = 100

// treeCPU is the processor time, user and system, of the processes roots, of
// their children that live, and of those that the roots have reaped. PostgreSQL
// has a process for each connection. Unit of 10 ms.
func treeCPU(roots []int) (time.Duration, error) {
	// A child that is reaped meanwhile would be counted twice, or not at all:
	// then all is read again.
	for range 20 {
		before, err := readStats(roots)
		if err != nil {
			return 0, err
		}
		children, err := childrenOf(roots)
		if err != nil {
			return 0, err
		}
		after, err := readStats(roots)
		if err != nil {
			return 0, err
		}
		if before.reaped == after.reaped {
			return time.Duration(after.own+after.reaped+children) * time.Second / userHZ, nil
		}
	}
	return 0, errors.New("children end all the time: their processor time cannot be told")
}

// readStats adds up the times of processes that must be there.
func readStats(pids []int) (sum stat, err error) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return sum, err
		}
		s, err := parseStat(b)
		if err != nil {
			return sum, fmt.Errorf("process %d: %w", pid, err)
		}
		sum.own += s.own
		sum.reaped += s.reaped
	}
	return sum, nil
}

// childrenOf gives the ticks of all children of roots.
func childrenOf(roots []int) (ticks int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		if s, err := parseStat(b); err == nil && slices.Contains(roots, s.parent) {
			ticks += s.own
		}
	}
	return ticks, nil
}

// stat is what is used of /proc/PID/stat; times in ticks.
type stat struct{ pid, parent, own, reaped int }

func parseStat(b []byte) (stat, error) {
	// The second field is the program's name in parentheses, and may hold any.
	head, rest, ok := bytes.Cut(b, []byte(" ("))
	end := bytes.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return stat{}, fmt.Errorf("not a stat line: %q", b)
	}
	fields := strings.Fields(string(rest[end+1:]))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("%d fields", len(fields))
	}
	n := make([]int, 0, 6)
	for _, f := range []string{string(head), fields[1], fields[11], fields[12], fields[13], fields[14]} {
		v, err := strconv.Atoi(f)
		if err != nil {
			return stat{}, err
		}
		n = append(n, v)
	}
	return stat{pid: n[0], parent: n[1], own: n[2] + n[3], reaped: n[4] + n[5]}, nil
}
