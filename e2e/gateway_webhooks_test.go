package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fleet is two gateways in front of an exchange, on three nodes.
type fleet struct {
	*trio
	t        *testing.T
	ledger   string
	upstream string
	base     int
	gateways [2]*process
	http     *http.Client
	args     []string
}

func newFleet(t *testing.T, args ...string) *fleet {
	f := &fleet{trio: startTrio(t), t: t, ledger: filepath.Join(t.TempDir(), "ledger"), base: freeBlock(t), args: args}
	f.upstream = "http://" + address(f.base+20)
	startExchange(t, f.ledger, address(f.base+20))
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	f.http = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	f.policy("orders", `{"preset":"gateway","ttl":"1h","onDuplicate":"replay"}`)
	for i := range f.gateways {
		f.startGateway(i)
	}
	return f
}

func (f *fleet) startGateway(i int) {
	endpoints := make([]string, 3)
	for n := range 3 {
		endpoints[n] = "http://" + address(f.port[(n+i)%3])
	}
	f.gateways[i] = startProcess(f.t, fmt.Sprintf("gateway%d", i+1), append([]string{
		"gateway", "--listen", address(f.base + 10*i), "--admin-listen", address(f.base + 10*i + 1), "--upstream", f.upstream,
		"--endpoints", strings.Join(endpoints, ","), "--namespace", "orders", "--log-level", "error",
	}, f.args...)...)
	p := f.gateways[i]
	eventually(f.t, "the gateway is ready", func() bool {
		if !p.running() {
			f.t.Fatalf("gateway ended with %d: %s", p.exit(), p.stderr.tail())
		}
		res, err := f.http.Get("http://" + address(f.base+10*i+1) + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 200
	})
}

// sent is what came back for a webhook.
type sent struct {
	status int
	code   string // of a problem
	body   string
	err    error
}

// send sends a webhook through gateway i.
func (f *fleet) send(ctx context.Context, i int, body string) sent {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+address(f.base+10*i)+"/webhook", strings.NewReader(body))
	if err != nil {
		return sent{err: err}
	}
	req.GetBody = nil // net/http must not send it again by itself
	req.Header.Set("Content-Type", "application/json")
	res, err := f.http.Do(req)
	if err != nil {
		return sent{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	s := sent{status: res.StatusCode, body: string(b), err: err}
	if res.Header.Get("Content-Type") == "application/problem+json" {
		if _, rest, ok := strings.Cut(s.body, `"code":"`); ok {
			s.code, _, _ = strings.Cut(rest, `"`)
		}
	}
	return s
}

func webhookBody(key, plan string) string {
	return fmt.Sprintf(`{"idempotencyKey":%q,"exchange":"binance","symbol":"BTCUSDT","action":"buy","quantity":1,"plan":%q}`, key, plan)
}

// webhooks is how many there are; E2E_WEBHOOKS makes it more.
func webhooks() int {
	if n, err := strconv.Atoi(os.Getenv("E2E_WEBHOOKS")); err == nil && n > 0 {
		return n
	}
	return 10_000
}

// planOf is what goes wrong with webhook n.
func planOf(n int) string {
	switch {
	case n%100 == 7:
		return "cut"
	case n%200 == 13:
		return "half"
	case n%500 == 17:
		return "slow"
	case n%500 == 19:
		return "lost"
	case n%20 == 3:
		return "soft"
	case n%50 == 11:
		return "chunked"
	}
	return "ok"
}

// story is what the callers of one webhook were told.
type story struct {
	mu      sync.Mutex // guards all below
	success map[string]bool
	soft    int
}

func (s *story) hear(a sent) {
	if a.err != nil || a.status/100 != 2 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(a.body, `"success":false`) {
		s.soft++
		return
	}
	s.success[a.body] = true
}

// Ten thousand webhooks, each sent several times over two gateways, while
// connections are cut, answers are lost, gateways and the leader are killed.
func TestGatewayWebhooks(t *testing.T) {
	n := webhooks()
	f := newFleet(t, "--preset", "trading-webhook", "--on-duplicate", "replay", "--upstream-timeout", "2s")
	began := time.Now()
	stories := make([]story, n)
	var next, sends, answered atomic.Int64
	var codes sync.Map // status and code -> count
	rng := func(i int) *rand.Rand { return rand.New(rand.NewPCG(4, uint64(i))) }
	key := func(i int) string { return fmt.Sprintf("webhook-%06d", i) }
	deliver := func(ctx context.Context, i, through int) sent {
		sends.Add(1)
		a := f.send(ctx, through, webhookBody(key(i), planOf(i)))
		stories[i].hear(a)
		if a.err == nil {
			answered.Add(1)
			c, _ := codes.LoadOrStore(fmt.Sprintf("%d %s", a.status, a.code), new(atomic.Int64))
			c.(*atomic.Int64).Add(1)
		}
		return a
	}
	var wg sync.WaitGroup
	for range 48 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				stories[i].success = map[string]bool{}
				r := rng(i)
				times := 3 + r.IntN(4)
				together := r.IntN(2) == 0
				var each sync.WaitGroup
				for range times {
					through, impatient := r.IntN(2), r.IntN(25) == 0
					patience := time.Duration(1+r.IntN(20)) * time.Millisecond
					one := func() {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if impatient { // hangs up, and sends again later
							defer time.AfterFunc(patience, cancel).Stop()
						}
						deliver(ctx, i, through)
					}
					if together {
						each.Go(one)
					} else {
						one()
					}
				}
				each.Wait()
			}
		})
	}
	// The faults, at parts of the way.
	reach := func(part float64) {
		eventuallyLong(t, "the webhooks go on", func() bool { return float64(next.Load()) >= part*float64(n) })
	}
	for fault, part := range []float64{0.2, 0.4, 0.6, 0.8} {
		reach(part)
		switch fault {
		case 0, 2:
			g := fault / 2
			f.gateways[g].kill()
			f.startGateway(g)
		case 1:
			leader := f.leaderOf()
			f.proc[leader].kill()
			f.start(leader)
			f.awaitReady(leader)
		case 3: // in good order, while requests come
			f.gateways[0].signal(syscall.SIGTERM)
			if code := f.gateways[0].exit(); code != 0 {
				t.Errorf("a stop in good order ended with %d", code)
			}
			f.startGateway(0)
		}
	}
	wg.Wait()
	took := time.Since(began)

	// Each webhook is sent until it is filled, or known to be in doubt.
	doubt := make([]bool, n)
	var open atomic.Int64
	var rest sync.WaitGroup
	next.Store(0)
	for range 48 {
		rest.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				for try := 0; len(stories[i].success) == 0 && !doubt[i]; try++ {
					a := deliver(t.Context(), i, try%2)
					if doubt[i] = a.code == "idempotency_uncertain" && a.status == 409; doubt[i] {
						open.Add(1)
					}
					if a.code == "idempotency_in_flight" {
						pauseFor(200 * time.Millisecond) // its lease is up to 12 s
					}
					if try > 400 {
						t.Errorf("%s: %+v after %d tries", key(i), a, try)
						return
					}
				}
			}
		})
	}
	rest.Wait()
	filled := fills(t, f.ledger)
	uncertain, filledInDoubt, soft := 0, 0, 0
	for i := range n {
		k, plan, s := key(i), planOf(i), &stories[i]
		count := filled[k]
		if count > 1 {
			t.Errorf("%s (%s): filled %d times", k, plan, count)
		}
		if len(s.success) > 1 {
			t.Errorf("%s (%s): %d different answers", k, plan, len(s.success))
		}
		if len(s.success) > 0 && count != 1 {
			t.Errorf("%s (%s): answered with success, filled %d times", k, plan, count)
		}
		if plan == "soft" && len(s.success) > 0 {
			soft++
		}
		switch plan {
		case "cut", "half", "slow", "lost":
			if !doubt[i] {
				t.Errorf("%s (%s): not in doubt", k, plan)
			}
		}
		if doubt[i] {
			uncertain++
			if count == 1 {
				filledInDoubt++
			}
		}
	}
	// What is in doubt is seen as such, stays as it is, and is resolved by a
	// person who looks into the ledger.
	looked := 0
	for i := range n {
		if !doubt[i] || looked >= 100 {
			continue
		}
		looked++
		k := key(i) + ":live"
		rec := f.look(i%3, "orders", k, "strong")
		if rec == nil || rec.Status != "uncertain" || rec.Token == "" {
			t.Fatalf("%s: %+v", k, rec)
		}
		if a := f.send(t.Context(), i%2, webhookBody(key(i), planOf(i))); a.status != 409 || a.code != "idempotency_uncertain" {
			t.Errorf("%s: %+v", k, a)
		}
		verdict := map[string]any{"key": k, "token": rec.Token, "verdict": "committed", "reason": "found in the ledger", "actor": "ann"}
		if filled[key(i)] == 0 {
			verdict["verdict"] = "not_applied"
		}
		f.must(200, f.call(i%3, "orders", "resolve", verdict))
	}
	for k, count := range fills(t, f.ledger) {
		if count != filled[k] {
			t.Errorf("%s: filled again", k)
		}
	}
	var tally []string
	codes.Range(func(k, v any) bool {
		tally = append(tally, fmt.Sprintf("%v: %d", k, v.(*atomic.Int64).Load()))
		return true
	})
	t.Logf("%d webhooks, %d sends, %d answers in %s (and %s to settle); %d filled, %d in doubt (%d of them filled), %d soft failures filled in the end",
		n, sends.Load(), answered.Load(), took.Round(time.Millisecond), (time.Since(began) - took).Round(time.Millisecond), len(filled), uncertain, filledInDoubt, soft)
	t.Logf("answers: %s", strings.Join(tally, ", "))
}

// leaderOf gives the index of the leader.
func (f *fleet) leaderOf() (leader int) {
	f.t.Helper()
	eventually(f.t, "there is a leader", func() bool {
		for i := range 3 {
			if id := f.get(i, "/readyz").header.Get("Onced-Leader"); strings.HasPrefix(id, "n") {
				leader = int(id[1] - '1')
				return true
			}
		}
		return false
	})
	return leader
}

// eventuallyLong is eventually for what a loaded machine takes minutes for.
func eventuallyLong(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 min: %s", what)
		}
		breathe()
	}
}

func pauseFor(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
