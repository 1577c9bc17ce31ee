package client_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/client"
)

// dev builds the product, starts three nodes of it in one process, and gives
// their endpoints. The process is ended with the test.
func dev(t *testing.T) (endpoints []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the product")
	}
	bin := filepath.Join(t.TempDir(), "onced")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/onced").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "dev", "--nodes", "3", "-o", "json")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var ready struct {
		Endpoints []string `json:"endpoints"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(line), &ready)
	}
	if err != nil {
		t.Fatalf("onced dev printed %q: %v\n%s", line, err, &stderr)
	}
	return ready.Endpoints
}

// Many clients, each on a node of its own, submit every key several times to a
// real cluster: one effect a key, the same value for all.
func TestRealCluster(t *testing.T) {
	t.Parallel()
	endpoints := dev(t)
	const keys, copies = 40, 6
	var effects [keys]atomic.Int32
	var wg sync.WaitGroup
	ctx, cancel := contextFor(t, 30*time.Second)
	defer cancel()
	clients := make([]*client.Client, len(endpoints))
	for i := range clients {
		c, err := client.New(client.WithEndpoints(endpoints[i:]...), client.WithEndpoints(endpoints[:i]...))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[i] = c
	}
	for k := range keys {
		for n := range copies {
			wg.Go(func() {
				call := client.Call{Key: fmt.Sprintf("real-%05d", k), Operation: "pay", Request: k, Wait: 20 * time.Second}
				out, err := client.Do(ctx, clients[n%len(clients)], call, func(context.Context, client.Attempt) (string, error) {
					return fmt.Sprintf("effect %d of %d", effects[k].Add(1), k), nil
				})
				if want := fmt.Sprintf("effect 1 of %d", k); err != nil || out.Value != want {
					t.Errorf("key %d: %q, %v", k, out.Value, err)
				}
			})
		}
	}
	wg.Wait()
	for k := range keys {
		if n := effects[k].Load(); n != 1 {
			t.Errorf("key %d: %d effects", k, n)
		}
	}
	// Everything else once, as the real edge answers it.
	c := clients[0]
	claim := mustReserve(t, c, "real-call-1")
	if ext, err := c.Extend(ctx, client.ExtendRequest{Key: "real-call-1", Token: claim.Token, Lease: time.Minute}); err != nil || ext.Lease.Length() < 59*time.Second {
		t.Errorf("%+v, %v", ext, err)
	}
	res, err := c.Batch(ctx, client.ReleaseRequest{Key: "real-call-1", Token: claim.Token}, client.CancelRequest{Key: "real-call-2", Reason: "late"})
	if err != nil || res[0].Err != nil || res[1].Err != nil {
		t.Errorf("%+v, %v", res, err)
	}
	list, err := clients[1].List(ctx, client.ListRequest{Prefix: "real-call", MinIndex: res[0].Settlement.Index})
	if err != nil || len(list.Records) != 2 || list.Records[0].Status != "released" || list.Records[1].Status != "cancelled" {
		t.Errorf("%+v, %v", list, err)
	}
	t.Run("response omitted", func(t *testing.T) { responseOmitted(t, c) })
}

// The outcome of a response that is too large to send is recorded as such.
func responseOmitted(t *testing.T, c *client.Client) {
	claim := mustReserve(t, c, key)
	s, err := c.Commit(t.Context(), client.CommitRequest{Key: key, Token: claim.Token, Response: strings.Repeat("x", 2<<20)})
	if err != nil || !s.Record.ResponseOmitted {
		t.Fatalf("%+v, %v", s, err)
	}
	for range 2 {
		s, err = c.Commit(t.Context(), client.CommitRequest{Key: key, Token: claim.Token, OmitResponse: true})
		if err != nil || !s.Repeated {
			t.Errorf("again: %+v, %v", s, err)
		}
	}
	_, err = client.Do(t.Context(), c, client.Call{Key: key}, mustNotRun(t))
	is(t, err, client.ErrReplay)
}
