package bench

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sleeps gives an Op that takes the times that took gives for each call of all
// clients, counted from 0.
func sleeps(took func(call int) time.Duration) func(int) (Op, error) {
	var calls atomic.Int64
	return func(int) (Op, error) {
		return func(context.Context) (int, error) {
			time.Sleep(took(int(calls.Add(1) - 1)))
			return 1, nil
		}, nil
	}
}

func near(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s is %v, want %v to %v", what, got, least, most)
	}
}

// A server that hangs for a second must be seen by the calls that would have
// been sent in that second, not by the one that was.
func TestOpenLoopCountsFromWhenACallWasDue(t *testing.T) {
	t.Parallel()
	hangs := func(call int) time.Duration {
		if call == 300 {
			return time.Second
		}
		return time.Millisecond
	}
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 1, Rate: 100, For: 10 * time.Second, Start: sleeps(hangs)}
		r, err := l.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Operations != 1000 || len(r.Errors) != 0 {
			t.Errorf("%+v", r)
		}
		near(t, "p50", r.LatencyMs.P50, 0.9, 1.1)
		near(t, "p99", r.LatencyMs.P99, 850, 1000) // 111 calls waited
		near(t, "max", r.LatencyMs.Max, 995, 1005)
		near(t, "ops/s", r.OpsPerSecond, 99, 101)
	})
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 1, For: 10 * time.Second, Start: sleeps(hangs)}
		r, err := l.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		// In a closed loop one call of 9000 saw it.
		near(t, "p99.9", r.LatencyMs.P999, 0.9, 1.1)
		near(t, "max", r.LatencyMs.Max, 995, 1005)
		near(t, "operations", float64(r.Operations), 8995, 9005)
	})
}

// A call that another client can make is not held up by the one that hangs.
func TestOpenLoopUsesFreeClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 2, Rate: 100, For: 10 * time.Second, Start: sleeps(func(call int) time.Duration {
			if call == 300 {
				return time.Second
			}
			return time.Millisecond
		})}
		r, err := l.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Operations != 1000 {
			t.Errorf("%+v", r)
		}
		near(t, "p99", r.LatencyMs.P99, 0.9, 1.1)
	})
}

func TestOpenLoopTellsWhatItCouldNotSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 1, Rate: 100, Warmup: time.Second, For: 10 * time.Second, Start: sleeps(func(int) time.Duration { return time.Second })}
		r, err := l.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if sent := r.Operations; sent > 11 || r.Errors[notSentCode] != 1000-sent {
			t.Errorf("%+v", r)
		}
	})
}

// The warm-up is not in the figures, and what is under way at the end is.
func TestWarmupAndEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := Load{Clients: 1, Warmup: 5 * time.Second, For: 2 * time.Second, Start: func(int) (Op, error) {
			return func(context.Context) (int, error) {
				if time.Since(begin) < 5*time.Second {
					time.Sleep(500 * time.Millisecond)
					return 0, errors.New("cold")
				}
				time.Sleep(3 * time.Second)
				return 7, nil
			}, nil
		}}
		var seen []Progress
		r, err := l.Run(t.Context(), func(p Progress) { seen = append(seen, p) })
		if err != nil {
			t.Fatal(err)
		}
		if r.Operations != 7 || len(r.Errors) != 0 || r.Seconds != 3 || r.LatencyMs.Max < 2990 {
			t.Errorf("%+v", r)
		}
		near(t, "ops/s", r.OpsPerSecond, 2.3, 2.4)
		if len(seen) < 30 || !seen[0].Warmup || seen[len(seen)-1].Warmup || seen[0].Total != 7*time.Second {
			t.Errorf("progress: %+v", seen)
		}
	})
}

// A call that does not end is ended after the grace.
func TestACallThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 3, For: time.Second, Start: func(int) (Op, error) {
			return func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}, nil
		}}
		begin := time.Now()
		r, err := l.Run(t.Context(), nil)
		if err != nil || r.Errors[codeTimeout] != 3 || time.Since(begin) != time.Second+Grace {
			t.Errorf("%+v, %v, after %v", r, err, time.Since(begin))
		}
	})
}

func TestRunEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		l := Load{Clients: 4, Rate: 100, Warmup: time.Second, For: time.Hour, Start: sleeps(func(int) time.Duration { return time.Millisecond })}
		r, err := l.Run(ctx, nil)
		if !errors.Is(err, context.DeadlineExceeded) || r == nil {
			t.Fatal(r, err)
		}
		near(t, "operations", float64(r.Operations), 195, 201)
		near(t, "seconds", r.Seconds, 1.9, 2.1)
		near(t, "not sent", float64(r.Errors[notSentCode]), 0, 4)
	})
}

func TestStartMayFail(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route")
	start := func(client int) (Op, error) {
		if client == 2 {
			return nil, cause
		}
		return func(context.Context) (int, error) { return 1, nil }, nil
	}
	if r, err := (Load{Clients: 3, For: time.Second, Start: start}).Run(t.Context(), nil); !errors.Is(err, cause) || r != nil {
		t.Error(r, err)
	}
	for _, l := range []Load{
		{For: time.Second, Start: start},
		{Clients: 1, Start: start},
		{Clients: 1, For: time.Second},
		{Clients: 1, For: time.Second, Rate: -1, Start: start},
	} {
		if _, err := l.Run(t.Context(), nil); err == nil {
			t.Errorf("%+v ran", l)
		}
	}
}

// Processor time is that of the measured part, for each operation.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := Load{
			Clients: 1, Warmup: time.Second, For: 10 * time.Second,
			Start: sleeps(func(int) time.Duration { return 10 * time.Millisecond }),
			CPU:   func() (time.Duration, error) { return 5*time.Hour + time.Since(begin)/2, nil },
		}
		r, err := l.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "server CPU", r.ServerCpuUs, 4990, 5010)
		l.CPU = func() (time.Duration, error) { return 0, errors.New("gone") }
		if r, err = l.Run(t.Context(), nil); err != nil || r.ServerCpuUs != 0 {
			t.Error(r, err)
		}
	})
}

func TestCPUOf(t *testing.T) {
	t.Parallel()
	before, err := CPUOf(os.Getpid())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no /proc")
	}
	if err != nil {
		t.Fatal(err)
	}
	own := ownCPU()
	for ownCPU() < own+50*time.Millisecond { // use some
		_ = strings.Repeat("x", 1000)
	}
	after, err := CPUOf(os.Getpid())
	if err != nil || after-before < 30*time.Millisecond {
		t.Errorf("%v, then %v, %v", before, after, err)
	}
	if twice, err := CPUOf(os.Getpid(), os.Getpid()); err != nil || twice < 2*after {
		t.Errorf("twice is %v, %v", twice, err)
	}
	if _, err := CPUOf(1 << 30); err == nil {
		t.Error("no error for a process that is not there")
	}
}

func TestErrorsAreCountedByCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{refusal("quota_exceeded"), "quota_exceeded"},
		{errors.Join(errors.New("x"), refusal("quota_exceeded")), "quota_exceeded"},
		{&failure{codeLost, errors.New("reset")}, codeLost},
		{context.DeadlineExceeded, codeTimeout},
		{&net.OpError{Op: "dial", Addr: &net.TCPAddr{Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, syscall.ECONNREFUSED.Error()},
		{&fs.PathError{Op: "open", Path: "a", Err: errors.New("broken")}, "broken"},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	w := newWorker(nil)
	for i := range 100 {
		w.record(0, errors.New("kind "+strconv.Itoa(i)), 0, time.Now())
	}
	if len(w.errors) != maxErrorKinds+1 || w.errors["other"] != 100-maxErrorKinds {
		t.Errorf("%v", w.errors)
	}
}

// The figures of many clients are those that one histogram would have given.
func TestWorkersAreMerged(t *testing.T) {
	t.Parallel()
	workers := []*worker{newWorker(nil), newWorker(nil), newWorker(nil), newWorker(nil)}
	at := time.Now()
	for ms := 1; ms <= 1000; ms++ { // evenly, each client a part of them
		workers[ms%3].record(1, nil, time.Duration(ms)*time.Millisecond, at.Add(time.Duration(ms)))
	}
	workers[0].record(3, refusal("a"), 500*time.Millisecond, at) // a part of a batch
	workers[1].record(0, refusal("a"), time.Hour, at)            // in no histogram
	workers[3].record(0, refusal("b"), time.Hour, at.Add(2000))
	c := collect(workers)
	r := c.result(4, 10*time.Second)
	near(t, "p50", r.LatencyMs.P50, 499, 501.5)
	near(t, "p90", r.LatencyMs.P90, 899, 902)
	near(t, "p99", r.LatencyMs.P99, 989, 992)
	near(t, "p99.9", r.LatencyMs.P999, 998, 1001)
	near(t, "max", r.LatencyMs.Max, 999, 1001)
	if r.Operations != 1003 || r.OpsPerSecond != 100.3 || r.Errors["a"] != 2 || r.Errors["b"] != 1 || r.Failed() != 3 || !c.last.Equal(at.Add(2000)) {
		t.Errorf("%+v, last %v", r, c.last)
	}
}
