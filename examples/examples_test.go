// Package examples_test runs the examples against a cluster, as their comments
// say.
package examples_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// build builds a program of the module.
func build(t *testing.T, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", bin, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// start starts a program and gives the first line that has word.
func start(t *testing.T, word, bin string, args ...string) (line string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(bin, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "ONCED_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	for s := bufio.NewScanner(out); s.Scan(); {
		if strings.Contains(s.Text(), word) {
			return s.Text(), cmd
		}
	}
	return "", cmd
}

// port finds a block of ports that is free.
func port(t *testing.T) int {
	t.Helper()
	for range 100 {
		base := 33000 - 40*(1+rand.IntN(200))
		free := true
		for d := range 32 {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(base+d))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

func post(t *testing.T, url, key, body string) (status int, answer string, replayed bool) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b), res.Header.Get("Idempotent-Replayed") == "true"
}

func TestExamples(t *testing.T) {
	t.Parallel()
	onced := build(t, "../cmd/onced")
	base := port(t)
	ready, _ := start(t, "endpoints", onced, "dev", "--port", strconv.Itoa(base), "-o", "json")
	if ready == "" {
		t.Fatal("no cluster")
	}
	endpoint := "http://127.0.0.1:" + strconv.Itoa(base)

	t.Run("once", func(t *testing.T) {
		t.Parallel()
		once := build(t, "./once")
		run := func(args ...string) string {
			out, err := exec.Command(once, append([]string{"-endpoints", endpoint}, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return string(out)
		}
		first, again := run("-key", "order-0001"), run("-key", "order-0001")
		if !strings.HasSuffix(first, " replayed=false\n") || again != strings.Replace(first, "false", "true", 1) {
			t.Errorf("%q, then %q", first, again)
		}
		if got := run("-key", "order-0001", "-amount", "11"); !strings.Contains(got, "idempotency_key_conflict") {
			t.Errorf("another amount: %q", got)
		}
		for _, want := range []string{"replayed=false", "replayed=true"} {
			if got := run("-key", "order-0002", "-amount", "0"); got != "declined: amount_invalid "+want+"\n" {
				t.Errorf("%q", got)
			}
		}
	})

	t.Run("middleware", func(t *testing.T) {
		t.Parallel()
		line, _ := start(t, "listening", build(t, "./middleware"), "-endpoints", endpoint, "-listen", "127.0.0.1:0")
		url := "http://" + strings.TrimPrefix(line, "listening on ")
		for i := range 3 {
			if status, answer, replayed := post(t, url+"/orders", "order-1001", `{"amount":10}`); status != 201 || answer != "{\"order\":1}\n" || replayed != (i > 0) {
				t.Errorf("%d %q %t", status, answer, replayed)
			}
		}
		if status, _, _ := post(t, url+"/orders", "", `{"amount":10}`); status != 400 {
			t.Errorf("without a key: %d", status)
		}
	})

	for file, c := range map[string]struct {
		path, key, body string
		again           int
	}{
		"gateway.toml": {"/payments/1", "order-2001", `{"amount":10}`, 200},
		"trading.toml": {"/webhook", "", `{"exchange":"binance","symbol":"BTCUSDT","action":"buy","quantity":0.5}`, 409},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command(onced, "ns", "set", "trading", "--preset", "gateway", "--endpoints", endpoint).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var calls atomic.Int64
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				fmt.Fprint(w, `{"success":true}`)
			}))
			defer upstream.Close()
			line, cmd := start(t, "gateway on", onced, "gateway", "--config", file, "--endpoints", endpoint,
				"--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s")
			m := regexp.MustCompile(`gateway on (\S+), admin on (\S+):`).FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("%q", line)
			}
			if status, answer, _ := post(t, "http://"+m[1]+c.path, c.key, c.body); status != 200 || answer != `{"success":true}` {
				t.Errorf("%d %s", status, answer)
			}
			if status, answer, _ := post(t, "http://"+m[1]+c.path, c.key, c.body); status != c.again || calls.Load() != 1 {
				t.Errorf("again: %d %s, %d calls", status, answer, calls.Load())
			}
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				res, err := http.Get("http://" + m[2] + path)
				if err != nil || res.StatusCode != 200 {
					t.Errorf("%s: %v", path, err)
					continue
				}
				res.Body.Close()
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("SIGTERM: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("SIGTERM did not end it")
			}
		})
	}
}
