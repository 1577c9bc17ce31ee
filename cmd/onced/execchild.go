package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/client"
)

// execResult is how a command ended, as it is recorded.
type execResult struct {
	ExitCode      int     `json:"exitCode"`
	Stdout        *string `json:"stdout,omitzero"`
	StdoutBase64  *string `json:"stdoutBase64,omitzero"`
	Stderr        *string `json:"stderr,omitzero"`
	StderrBase64  *string `json:"stderrBase64,omitzero"`
	OutputOmitted bool    `json:"outputOmitted,omitzero"`
}

// output gives the two outputs again.
func (r *execResult) output() (stdout, stderr []byte, err error) {
	if stdout, err = untext(r.Stdout, r.StdoutBase64); err == nil {
		stderr, err = untext(r.Stderr, r.StderrBase64)
	}
	return stdout, stderr, err
}

func untext(plain, coded *string) ([]byte, error) {
	switch {
	case plain != nil:
		return []byte(*plain), nil
	case coded != nil:
		return base64.StdEncoding.DecodeString(*coded)
	}
	return nil, nil
}

// texts gives bytes as text where they are, in base64 where not.
func texts(b []byte) (plain, coded *string) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}

// execChild is the command.
type execChild struct {
	*app
	args    []string
	signals *signalsOf
	limit   int // bytes of JSON that may be kept

	started bool        // it was tried
	result  *execResult // nil: it did not run to an end
}

// kept is an output that goes through and is kept as long as it is not too much.
type kept struct {
	through io.Writer
	limit   int

	mu   sync.Mutex // guards all below
	b    []byte
	over bool
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	if k.over = k.over || len(k.b)+len(p) > k.limit; k.over {
		k.b = nil
	} else {
		k.b = append(k.b, p...)
	}
	k.mu.Unlock()
	// Nobody reading any more is no reason to end the command.
	_, _ = k.through.Write(p)
	return len(p), nil
}

// run runs the command to its end. Any exit code is an outcome.
func (c *execChild) run(ctx context.Context, _ client.Attempt) (execResult, error) {
	var none execResult
	c.started = true
	cmd := exec.Command(c.args[0], c.args[1:]...)
	stdout, stderr := &kept{through: c.stdout, limit: c.limit}, &kept{through: c.stderr, limit: c.limit}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, stdout, stderr
	cmd.WaitDelay = execPipes
	cmd.SysProcAttr = dieWithExec()
	// What dies with exec dies with this thread, so it stays until the end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return none, client.NotStarted(err)
	}
	c.signals.running <- cmd.Process
	// When the cluster says that the key is another's, the command must stop;
	// when it only does not answer, nobody else may run it, and the command goes
	// on: what it comes to is recorded when the cluster is back.
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		fmt.Fprintf(c.stderr, "onced: the lease was lost while the command ran: %v\n", cause)
		if !errors.Is(cause, client.ErrUnavailable) && !errors.Is(cause, client.ErrOverloaded) {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	})
	err := cmd.Wait()
	stop()
	c.signals.running <- nil
	state := cmd.ProcessState
	if state == nil {
		return none, fmt.Errorf("waiting for the command: %w", err)
	}
	result := execResult{ExitCode: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		result.ExitCode = 128 + int(status.Signal())
	}
	result.keep(stdout, stderr, c.limit)
	c.result = &result
	return result, nil
}

// keep takes the outputs into the result, if both fit.
func (r *execResult) keep(stdout, stderr *kept, limit int) {
	whole := *r
	if !stdout.over && !stderr.over {
		whole.Stdout, whole.StdoutBase64 = texts(stdout.b)
		whole.Stderr, whole.StderrBase64 = texts(stderr.b)
		if b, err := json.Marshal(&whole); err == nil && len(b) <= limit {
			*r = whole
			return
		}
	}
	r.OutputOmitted = true
}
