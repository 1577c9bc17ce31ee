package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one started process. It dies with this one, however that ends.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

// startProcess runs args, with stdout and stderr appended to the file logPath.
func startProcess(logPath string, env []string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = childAttributes()
	started := make(chan error, 1)
	go func() {
		// The child's end is bound to the thread that started it, not to the
		// process: this one stays as long as the child does.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait()
		_ = log.Close()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends s to this very process.
func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return errors.New("the process has ended")
	}
	return p.cmd.Process.Signal(s)
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL)
	<-p.ended
}

// exit waits for the end and gives the exit code; -1 after a signal, false when
// it did not end in time.
func (p *process) exit(within time.Duration) (int, bool) {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), true
	case <-t.C:
		return 0, false
	}
}
