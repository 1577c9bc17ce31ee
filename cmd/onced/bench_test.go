package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/bench"
)

// benchNode answers every call of the API with status and body, and is well.
func benchNode(t *testing.T, status int, body string) (endpoint string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			calls.Add(1)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

func benchArgs(workload, endpoint string, more ...string) []string {
	return append([]string{"bench", workload, "--endpoints", endpoint, "--clients", "4", "--for", "100ms", "--warmup", "0s"}, more...)
}

// A cluster that grants one key twice fails the run, whatever else went well.
func TestBenchFailsOnADoubleGrant(t *testing.T) {
	t.Parallel()
	liar, _ := benchNode(t, http.StatusCreated, `{"outcome":"reserved","token":"12345"}`)
	got := runCommand(t, nil, "", benchArgs("storm", liar, "--slo", "p50<10s")...)
	if got.code != exitInternal || !strings.Contains(got.stderr, "that must never be") || !strings.Contains(got.stdout, "granted_again") {
		t.Errorf("%+v", got)
	}
	if got := runCommand(t, nil, "", benchArgs("storm", liar, "-o", "json")...); got.code != exitInternal || strings.Contains(got.stdout, `"doubleGrants":0`) {
		t.Errorf("%+v", got)
	}
}

// How a run ends in which nothing was done.
func TestBenchExitCodes(t *testing.T) {
	t.Parallel()
	unavailable, _ := benchNode(t, http.StatusServiceUnavailable, `{"code":"idempotency_unavailable"}`)
	denied, _ := benchNode(t, http.StatusTooManyRequests, `{"code":"quota_exceeded"}`)
	for _, c := range []struct {
		workload, endpoint string
		code               int
		in                 string
	}{
		{"reserve", unavailable, exitUnavailable, "idempotency_unavailable"},
		{"reserve", denied, exitDenied, "quota_exceeded"},
		{"replay", unavailable, exitUnavailable, "after 0 of 10000 keys"}, // while keys are made
	} {
		if got := runCommand(t, nil, "", benchArgs(c.workload, c.endpoint)...); got.code != c.code || !strings.Contains(got.stderr, c.in) {
			t.Errorf("%s: %+v, want %d and %q", c.workload, got, c.code, c.in)
		}
	}
	// It answered once, and then no more.
	hijack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				c.Close()
			}
		}
	}))
	t.Cleanup(hijack.Close)
	if got := runCommand(t, nil, "", benchArgs("reserve", hijack.URL)...); got.code != exitUnavailable || !strings.Contains(got.stderr, "no call was answered") {
		t.Errorf("%+v", got)
	}
}

// Ctrl-C gives the figures so far.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	node, calls := benchNode(t, http.StatusCreated, `{"outcome":"reserved","token":"12345"}`)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	var stdout, stderr syncBuffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	done := make(chan int, 1)
	go func() {
		done <- a.run(ctx, "bench", "reserve", "--endpoints", node, "--for", "1h", "--warmup", "0s", "-o", "json", "--clients", "2")
	}()
	eventually(t, "calls", func() error {
		if n := calls.Load(); n < 10 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	cancel()
	select {
	case code := <-done:
		if code != exitInterrupted || !strings.Contains(stderr.String(), "the figures are those so far") || !strings.HasPrefix(stdout.String(), `{"workload":"reserve"`) {
			t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}

// Anywhere but on a terminal the progress is a line a second, from the measured
// time alone.
func TestBenchProgressLines(t *testing.T) {
	t.Parallel()
	var w syncBuffer
	p := newBenchProgress(&w, "xterm")
	for _, at := range []int{500, 1000, 1500, 2000, 2100, 2600, 3100, 4200} {
		d := time.Duration(at) * time.Millisecond
		now := bench.Progress{Warmup: at < 2000, Elapsed: d, Total: 5 * time.Second}
		if !now.Warmup {
			now.Operations = int64(at-2000) * 2
		}
		if at > 4000 {
			now.Errors = 3
		}
		p.show(now)
	}
	p.end()
	want := "1 of 5 s: warming up\n3 of 5 s: 2000 operations a second\n4 of 5 s: 2000 operations a second, 3 errors so far\n"
	if w.String() != want {
		t.Errorf("got\n%swant\n%s", w.String(), want)
	}
	if f, err := os.CreateTemp(t.TempDir(), ""); err != nil || isTerminal(f) || isTerminal(&w) {
		t.Errorf("a file is a terminal (%v)", err)
	}
}
