package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// startDev runs dev in this process until the test ends, and gives the
// endpoints once it has printed them.
func startDev(t *testing.T, args ...string) (endpoints []string, stop func() int) {
	t.Helper()
	var stdout, stderr syncBuffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("dev wrote:\n%s", stderr.String())
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	done := make(chan int, 1)
	go func() { done <- a.run(ctx, append([]string{"dev", "-o", "json"}, args...)...) }()
	ended := false
	stop = func() int {
		if ended {
			return 0
		}
		ended = true
		cancel()
		select {
		case code := <-done:
			return code
		case <-time.After(20 * time.Second):
			t.Error("dev does not end")
			return -1
		}
	}
	t.Cleanup(func() { stop() })
	var ready struct {
		Endpoints []string `json:"endpoints"`
	}
	eventually(t, "dev is ready", func() error {
		select {
		case code := <-done:
			ended = true
			t.Fatalf("dev ended with %d: %s", code, stderr.String())
		default:
		}
		line, _, complete := strings.Cut(stdout.String(), "\n")
		if !complete {
			return fmt.Errorf("printed %q", line)
		}
		return json.Unmarshal([]byte(line), &ready)
	})
	if strings.Count(stdout.String(), "\n") != 1 {
		t.Errorf("more than one line:\n%s", stdout.String())
	}
	return ready.Endpoints, stop
}

// eventually polls until f gives nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
}

// The whole story through the command line, each step on another node.
func TestDevAndClientCommands(t *testing.T) {
	t.Parallel()
	base := freeBlock(t, 3)
	endpoints, stop := startDev(t, "--port", strconv.Itoa(base))
	for n, e := range endpoints {
		if want := "http://127.0.0.1:" + strconv.Itoa(base+10*n); e != want {
			t.Errorf("endpoint %d is %s, want %s", n, e, want)
		}
		res, err := http.Get(e + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s/readyz: %s", e, res.Status)
		}
	}
	on := func(n int, args ...string) ran {
		t.Helper()
		return runCommand(t, nil, "", append(args, "--endpoints", endpoints[n-1])...)
	}
	expect := func(got ran, code int, in string) {
		t.Helper()
		if got.code != code || !strings.Contains(got.stdout+got.stderr, in) {
			t.Errorf("exit %d, want %d and %q:\n%s%s", got.code, code, in, got.stdout, got.stderr)
		}
	}
	request := []string{"--request", `{"amount":10}`}
	reserve := func(n int, more ...string) ran {
		t.Helper()
		return on(n, append([]string{"reserve", "order-0001"}, more...)...)
	}

	got := reserve(1, append(request, "-o", "json", "--attempt-id", "attempt-0123456789")...)
	expect(got, exitOK, `"outcome":"reserved"`)
	var answer idem.Answer
	if err := unmarshalReply(&reply{200, []byte(got.stdout)}, &answer); err != nil {
		t.Fatal(err)
	}
	expect(reserve(2, append(request, "--attempt-id", "attempt-0123456789")...), exitOK, "(resumed)")
	expect(reserve(3, request...), exitInFlight, "idempotency_in_flight")
	expect(reserve(2, "--request", `{"amount":11}`), exitConflict, "idempotency_key_conflict")
	expect(on(3, "commit", "order-0001", "--token", "1"), exitConflict, "idempotency_stale_token")
	expect(on(3, "commit", "order-0001", "--token", answer.Token, "--response", "{}"), exitOK, "committed")
	expect(reserve(1, request...), exitOK, "replayed")
	expect(reserve(2, append(request, "-o", "json")...), exitOK, `"response":{}`)
	expect(on(2, "key", "get", "order-0001"), exitOK, "committed")
	expect(on(1, "key", "get", "order-9999"), exitNotFound, "idempotency_not_found")
	expect(on(1, "release", "order-0001", "--token", answer.Token), exitConflict, "idempotency_already_settled")
	expect(on(1, "reserve", "short"), exitUsage, "idempotency_key_invalid")
	expect(on(1, "reserve", "order-0002", "-n", "nowhere"), exitNotFound, "namespace_not_found")
	expect(on(2, "node", "ls"), exitOK, "can lose 1 more")

	// What must be refused is refused, and named.
	busy := runCommand(t, nil, "", "dev", "--port", strconv.Itoa(base))
	expect(busy, exitRefused, fmt.Sprintf("port %d ", base))

	if code := stop(); code != exitOK {
		t.Errorf("stopped with %d", code)
	}
	if got := on(1, "node", "ls"); got.code != exitUnavailable || !strings.Contains(got.stderr, "onced dev") {
		t.Errorf("after the end: %+v", got)
	}
}

// With a data directory, what was committed is there after a new start, on the
// same ports.
func TestDevKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := strconv.Itoa(freeBlock(t, 3))
	endpoints, stop := startDev(t, "--port", base, "--data-dir", dir)
	list := strings.Join(endpoints, ",")
	got := runCommand(t, nil, "", "reserve", "order-0001", "-o", "json", "--endpoints", list)
	var answer idem.Answer
	if err := unmarshalReply(&reply{200, []byte(got.stdout)}, &answer); err != nil {
		t.Fatal(err, got)
	}
	if got := runCommand(t, nil, "", "commit", "order-0001", "--token", answer.Token, "--response", "7", "--endpoints", list); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	if code := stop(); code != exitOK {
		t.Fatalf("stopped with %d", code)
	}
	again, stop := startDev(t, "--data-dir", dir)
	if strings.Join(again, ",") != list {
		t.Errorf("started again on %s, not %s", again, list)
	}
	if got := runCommand(t, nil, "", "reserve", "order-0001", "-o", "json", "--endpoints", list); got.code != exitOK || !strings.Contains(got.stdout, `"response":7`) {
		t.Errorf("%+v", got)
	}
	if code := stop(); code != exitOK {
		t.Errorf("stopped with %d", code)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("in the data directory: %v, %v", entries, err)
	}
}

// One to five nodes, each a cluster that works.
func TestDevNodes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			endpoints, stop := startDev(t, "--nodes", strconv.Itoa(n), "--port", strconv.Itoa(freeBlock(t, n)))
			if len(endpoints) != n {
				t.Errorf("endpoints: %s", endpoints)
			}
			if got := runCommand(t, nil, "", "reserve", "order-0001", "--endpoints", endpoints[n-1]); got.code != exitOK {
				t.Errorf("%+v", got)
			}
			if code := stop(); code != exitOK {
				t.Errorf("stopped with %d", code)
			}
		})
	}
}
