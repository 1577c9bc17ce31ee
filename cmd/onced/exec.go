package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// The exit codes of exec's own failures, as of env, nice and timeout.
const (
	exitExecFailed      = 125 // the cluster does not let it run, or nobody knows whether it ran
	exitExecNotRunnable = 126 // the command was found and cannot be run
	exitExecNotFound    = 127
)

const (
	// execSettle is how long exec tries to record how a command ended.
	execSettle = 2 * time.Minute
	// execPipes is how long output may come after the command has ended, from
	// what it left running.
	execPipes = 5 * time.Second
)

type execOptions struct {
	key, namespace, operation string
	endpoints                 string
	lease, ttl, wait, timeout time.Duration
}

func (a *app) execCommand() *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec --key KEY [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command once in the whole fleet",
		Long: `Run a command once in the whole fleet: on whichever machine comes first. The
others wait for it to end, and then print its output and exit with its code, as
everybody does who comes later, until --ttl is over.

Any exit code is an outcome, recorded and replayed. The exit code is that of the
command, and 128 + N when signal N ended it. exec's own failures: 127 no such
command, 126 it cannot be run (both give the key back), 125 anything else, with
the code and what to do next. When exec is killed the key becomes uncertain, and
nothing runs until somebody says what happened (onced resolve). On Linux the
command is killed with it; what the command had started itself, and commands on
other systems, may go on: look before you say that nothing was applied.

SIGTERM goes to the command. The output goes through as it comes; what is kept
of it is bounded by the namespace (maxResponseBytes) and subject to its redact.`,
		Example: `  onced exec --key backup:2026-11-30 -- /usr/local/bin/backup --full
  onced exec --key migrate:0042 --lease 10m --ttl 720h -- ./migrate up
  onced exec --key report:week-48 --wait 0s -- ./report   # 125 if another is at it`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which COMMAND? Put it behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 {
				return usagef("put -- before the command, so that its flags are its own")
			}
			return a.exec(cmd.Context(), o, args)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.key, "key", "", "names this run, in the whole fleet (required)")
	addNamespaceFlag(cmd, &o.namespace)
	flags.StringVar(&o.operation, "operation", "exec", "the run's stable name; another one on the same key is a conflict")
	flags.DurationVar(&o.lease, "lease", 0, "renewed while the command runs (default: the namespace's)")
	flags.DurationVar(&o.ttl, "ttl", 0, "how long the outcome is replayed (default: the namespace's)")
	flags.DurationVar(&o.wait, "wait", 24*time.Hour, "how long to wait for another machine's run; 0s: not at all")
	flags.StringVar(&o.endpoints, "endpoints", "", "base URLs of nodes, comma-separated (default $ONCED_ENDPOINTS, or "+defaultEndpoint+")")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to try to reach a decision")
	return cmd
}

// exec runs the command under the key, or replays what came of it.
func (a *app) exec(ctx context.Context, o execOptions, args []string) error {
	if o.key == "" {
		return usagef("which --key names this run?")
	}
	list := o.endpoints
	if list == "" {
		list = a.getenv("ONCED_ENDPOINTS")
	}
	if list == "" {
		list = defaultEndpoint
	}
	c, err := client.New(client.WithEndpoints(splitList(list)...), client.WithNamespace(o.namespace),
		client.WithBudget(o.timeout), client.WithSettleTimeout(execSettle))
	if err != nil {
		return usagef("%v", err)
	}
	defer c.Close()
	ctx, signals := execSignals(ctx)
	defer signals.stop()
	child := &execChild{app: a, args: args, signals: signals, limit: execLimit(ctx, c)}
	out, err := client.Do(ctx, c, client.Call{
		Key: o.key, Operation: o.operation, Request: map[string]any{"args": args},
		TTL: o.ttl, Lease: o.lease, Wait: o.wait, ClaimTimeout: o.timeout,
	}, child.run, client.Detached())
	switch {
	case err == nil && out.Replayed:
		return a.replayExec(&out.Value, out.Record)
	case child.started && child.result != nil:
		if err != nil { // it ran, and that is what the caller is told; but not only that
			fmt.Fprintf(a.stderr, "onced: %s\n", execUnrecorded(err, o))
		}
		return exitWith(child.result.ExitCode)
	}
	return execRefused(err, o, child)
}

// exitWith ends the process with a code and no words.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &silentExit{code}
}

// silentExit is the exit code of a command that had its say.
type silentExit struct{ code int }

func (e *silentExit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// execRefused says in one sentence why nothing ran, or that nobody knows.
func execRefused(err error, o execOptions, child *execChild) error {
	on := ""
	if o.namespace != defaultNamespace {
		on = " -n " + o.namespace
	}
	if errors.Is(err, client.ErrNotStarted) {
		code := exitExecFailed
		switch {
		case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
			code = exitExecNotFound
		case child.started:
			code = exitExecNotRunnable
		}
		return &exitError{code, fmt.Sprintf("%s did not start, and its key was given back: %v", quote(child.args[0]), whyNotStarted(err)), ""}
	}
	if child.signals.interrupted() {
		return &exitError{exitExecFailed, "interrupted before it began: nothing ran", ""}
	}
	p, ok := errors.AsType[*idem.Error](err)
	if !ok {
		return &exitError{exitExecFailed, fmt.Sprintf("nothing ran: %v", err), ""}
	}
	sentence, hint := fmt.Sprintf("nothing ran: %v", p), "look at it: onced key get "+o.key+on
	switch p.Code {
	case idem.CodeUncertain:
		sentence = "an earlier run began and nobody knows how it ended (" + string(p.Code) + ")"
		hint = "find out, then say so: onced resolve " + o.key + on + " --token TOKEN --verdict committed|failed|not_applied --reason WHY --actor YOU"
	case idem.CodeKeyConflict:
		sentence = "the key was used for another command or other arguments (" + string(p.Code) + ")"
		hint = "use another key for another run; look at this one: onced key get " + o.key + on
	case idem.CodeUnavailable, idem.CodeOverloaded:
		sentence = "the cluster does not decide, so nothing ran (" + string(p.Code) + ")"
		hint = "see why: onced node status; then run the same command again"
	case idem.CodeInFlight:
		sentence = "another machine is running it, for longer than --wait (" + string(p.Code) + ")"
	}
	return &exitError{exitExecFailed, sentence, hint}
}

// whyNotStarted leaves out what the sentence around it says.
func whyNotStarted(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// execUnrecorded says that a command ended and the cluster does not know how.
func execUnrecorded(err error, o execOptions) string {
	token := "TOKEN"
	if u, ok := errors.AsType[*client.UnrecordedError](err); ok {
		token = u.Token
		err = u.Err
	}
	return fmt.Sprintf("the command ended and its outcome was not recorded (%v): record it with: onced commit %s -n %s --token %s", err, o.key, o.namespace, token)
}

// signalsOf are the signals that reach exec while the command runs.
type signalsOf struct {
	incoming chan os.Signal
	running  chan *os.Process // nil when it has ended
	done     chan struct{}
	ended    chan struct{}
	waiting  context.Context // ends with a signal that came before the command ran
}

func (s *signalsOf) interrupted() bool { return s.waiting.Err() != nil }

// execSignals takes over the signals that end a process. Before the command
// runs they end the waiting; while it runs they are the command's.
func execSignals(ctx context.Context) (context.Context, *signalsOf) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &signalsOf{make(chan os.Signal, 8), make(chan *os.Process), make(chan struct{}), make(chan struct{}), ctx}
	// main's own handler would end the process at the second signal.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	signal.Notify(s.incoming, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		defer close(s.ended)
		defer cancel()
		var child *os.Process
		var early os.Signal // came while the command was being started
		for {
			select {
			case child = <-s.running:
				if child != nil && early != nil {
					_ = child.Signal(early)
				}
			case sig := <-s.incoming:
				switch {
				case child == nil:
					early = sig
					cancel()
				case sig == os.Interrupt && onTerminal():
					// The terminal has sent it to the command as well.
				default:
					_ = child.Signal(sig)
				}
			case <-s.done:
				return
			}
		}
	}()
	return ctx, s
}

func (s *signalsOf) stop() {
	signal.Stop(s.incoming)
	close(s.done)
	<-s.ended
}

// onTerminal tells whether exec has a terminal, whose Ctrl-C reaches the command
// without exec.
func onTerminal() bool {
	info, err := os.Stdin.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// execLimit is how much output is kept.
func execLimit(ctx context.Context, c *client.Client) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ns, err := c.GetNamespace(ctx)
	if err != nil || ns.Policy.MaxResponseBytes == nil {
		return 64 << 10
	}
	return int(*ns.Policy.MaxResponseBytes)
}

// replayExec gives the output and the exit code of the one run.
func (a *app) replayExec(r *execResult, rec *idem.Record) error {
	stdout, stderr, err := r.output()
	if err != nil {
		return &exitError{exitExecFailed, fmt.Sprintf("it ran, and its record is not one of exec: %v", err), "look at it: onced key get " + rec.Key}
	}
	_, err = a.stdout.Write(stdout)
	if _, failed := a.stderr.Write(stderr); err == nil {
		err = failed
	}
	if err != nil {
		return &exitError{exitExecFailed, fmt.Sprintf("it ran before, and its output cannot be written: %v", err), ""}
	}
	if r.OutputOmitted {
		fmt.Fprintln(a.stderr, "onced: it ran before; its output was too large to keep")
	}
	if len(rec.Redacted) > 0 {
		fmt.Fprintf(a.stderr, "onced: it ran before; secrets in its output were not kept (%s)\n", strings.Join(rec.Redacted, ", "))
	}
	return exitWith(r.ExitCode)
}
