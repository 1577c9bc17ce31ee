package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// process is one server that this program started, and ends by its id.
type process struct {
	cmd  *exec.Cmd
	log  string // path of what it printed
	gone chan struct{}
}

// launch starts a server; what it prints is added to log.
func launch(log string, environment []string, path string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(path, args...), log: log, gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = processAttributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// ended tells, with the last lines that it printed, that the process is no more.
func (p *process) ended() error {
	select {
	case <-p.gone:
	default:
		return nil
	}
	said, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("%s: ended (%s):\n%s", p.log, p.cmd.ProcessState, strings.Join(lines[max(0, len(lines)-8):], "\n"))
}

// wait waits until it is gone, and kills it when that takes longer than limit.
func (p *process) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		p.signal(syscall.SIGKILL)
		<-p.gone
	}
}

// Ports are taken from below the range that outgoing connections get theirs
// from, so that nobody has a node's port while it is down.
const (
	firstPort = 21_000
	lastPort  = 31_000
)

var lastGiven atomic.Int32

// freePort gives a port of loopback that nobody listens on, each once.
func freePort() (int, error) {
	for {
		port := firstPort + int(lastGiven.Add(1))
		if port > lastPort {
			return 0, fmt.Errorf("no free port from %d to %d", firstPort, lastPort)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
}
