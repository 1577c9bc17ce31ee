package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"
)

var processFaults = []*Fault{
	{Name: "kill", About: "kill -9 of one node, started again", Inject: kill},
	{Name: "kill-all", About: "kill -9 of all nodes at once, started again", Fails: true, Inject: killAll},
	{Name: "pause", About: "one node stopped (SIGSTOP) and continued", Inject: pauseNode},
	{Name: "restart", About: "one node ended in good order (SIGTERM), started again", Inject: restart},
	{Name: "rolling", About: "all nodes restarted one after the other, in good order", Inject: rolling},
	{Name: "stop-all", About: "all nodes stopped in good order, then started", Fails: true, Inject: stopAll},
	{Name: "throttle", About: "one node gets 5 % of the time: stopped and continued in turn", Inject: throttle},
}

func kill(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	pid := n.process().pid()
	n.kill()
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 200*time.Millisecond, 2*time.Second),
		heal: func(context.Context) (string, error) {
			return fmt.Sprintf("pid %d gone, exit %d", pid, n.process().cmd.ProcessState.ExitCode()), r.nodes.start(n)
		},
	}, nil
}

func killAll(_ context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	struck := r.history.now()
	for _, n := range r.nodes.All {
		if err := n.process().signal(syscall.SIGKILL); err != nil {
			return nil, fmt.Errorf("%s: %w", n.ID, err)
		}
	}
	for _, n := range r.nodes.All {
		n.kill()
	}
	return &injured{
		struck: struck,
		target: "all", leader: true, hold: between(rng, 100*time.Millisecond, time.Second),
		heal: func(context.Context) (string, error) {
			for _, n := range r.nodes.All {
				if err := r.nodes.start(n); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("%d processes gone", len(r.nodes.All)), nil
		},
	}, nil
}

func pauseNode(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	if err := n.process().signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 500*time.Millisecond, 3*time.Second),
		heal: func(context.Context) (string, error) {
			state := procState(n.process().pid())
			proof := ""
			if state == "T" {
				proof = "process state T"
			}
			return proof, n.process().signal(syscall.SIGCONT)
		},
	}, nil
}

// procState gives the state letter of a process, "" when it cannot be read.
func procState(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, ok := strings.Cut(string(b), ") ")
	if !ok || after == "" {
		return ""
	}
	return after[:1]
}

func restart(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	struck := r.history.now()
	n, leads := r.victim(ctx, rng)
	if err := n.stop(ctx); err != nil {
		return nil, err
	}
	return &injured{
		struck: struck,
		target: n.ID, leader: leads, hold: between(rng, 100*time.Millisecond, time.Second),
		heal: func(context.Context) (string, error) { return "exit 0", r.nodes.start(n) },
	}, nil
}

func rolling(ctx context.Context, r *rig, _ *rand.Rand) (*injured, error) {
	struck := r.history.now()
	for _, n := range r.nodes.All {
		if err := n.stop(ctx); err != nil {
			return nil, err
		}
		if err := r.nodes.start(n); err != nil {
			return nil, err
		}
		if err := r.nodes.awaitReady(ctx, recoverTime, n); err != nil {
			return nil, err
		}
	}
	return &injured{
		struck: struck,
		target: "all", leader: true,
		heal: func(context.Context) (string, error) {
			return fmt.Sprintf("%d nodes ended with exit 0 and came back", len(r.nodes.All)), nil
		},
	}, nil
}

func stopAll(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	struck := r.history.now()
	errs := make(chan error, len(r.nodes.All))
	for _, n := range r.nodes.All {
		go func() { errs <- n.stop(ctx) }()
	}
	for range r.nodes.All {
		if err := <-errs; err != nil {
			return nil, err
		}
	}
	return &injured{
		struck: struck,
		target: "all", leader: true, hold: between(rng, 100*time.Millisecond, time.Second),
		heal: func(context.Context) (string, error) {
			for _, n := range r.nodes.All {
				if err := r.nodes.start(n); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("%d processes ended with exit 0", len(r.nodes.All)), nil
		},
	}, nil
}

// throttle lets a node run 5 ms of every 100.
func throttle(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	p := n.process()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan int)
	go func() {
		stops := 0
		for work.Err() == nil {
			if p.signal(syscall.SIGSTOP) != nil {
				break
			}
			_ = pause(work, 95*time.Millisecond)
			if p.signal(syscall.SIGCONT) != nil {
				break
			}
			stops++
			_ = pause(work, 5*time.Millisecond)
		}
		done <- stops
	}()
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, time.Second, 4*time.Second),
		heal: func(context.Context) (string, error) {
			cancel()
			if stops := <-done; stops > 0 {
				return fmt.Sprintf("stopped %d times for 95 ms", stops), nil
			}
			return "", nil
		},
	}, nil
}
