package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// kills is how often the leader is killed: E2E_KILLS, 10 by default, 3
// with -short.
func kills(t *testing.T) int {
	if s := os.Getenv("E2E_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("E2E_KILLS=%s", s)
		}
		return n
	}
	if testing.Short() {
		return 3
	}
	return 10
}

// TestB41_OneGrantAKey: 64 clients want the same 1,000 keys at once, through
// all nodes, while the leader is killed: one attempt a key is granted, and the
// others are told so (B42).
func TestB41_OneGrantAKey(t *testing.T) {
	c := startTrio(t)
	const clients = 64
	keys := 1000
	if testing.Short() {
		keys = 200
	}
	key := func(k int) string { return fmt.Sprintf("wanted-by-all-%04d", k) }
	type grant struct{ attempt, token string }
	var mu sync.Mutex
	grants := map[string]map[grant]bool{}
	losses := map[string]int{}
	var answered atomic.Int64
	var seen unsettled
	var group sync.WaitGroup
	began := time.Now()
	for client := range clients {
		group.Go(func() {
			ask := func(k int) map[string]any {
				attempt := fmt.Sprintf("attempt-of-client-%02d-%04d", client, k)
				return map[string]any{"op": "reserve", "key": key(k), "attemptId": attempt, "request": k}
			}
			took := func(k int, m map[string]any, a *answer) {
				answered.Add(1)
				mu.Lock()
				if a.status == 201 {
					if grants[key(k)] == nil {
						grants[key(k)] = map[grant]bool{}
					}
					grants[key(k)][grant{a.AttemptID, a.Token}] = true
					if a.AttemptID != m["attemptId"] {
						t.Errorf("%s was granted as %s", m["attemptId"], a.AttemptID)
					}
				} else {
					losses[fmt.Sprint(a.status, " ", a.says())]++
				}
				mu.Unlock()
				if a.status == 201 && k%2 == 0 { // so that some losers are told the outcome
					c.until(t, client, "commit", map[string]any{"key": key(k), "token": a.Token, "response": client}, &seen)
				}
			}
			for k := 0; k < keys; {
				if client%2 == 0 { // alone
					m := ask(k)
					took(k, m, c.until(t, client+k, "reserve", without(m, "op"), &seen))
					k++
					continue
				}
				var items []map[string]any // twenty in a batch
				for len(items) < 20 && k < keys {
					items = append(items, ask(k))
					k++
				}
				for i, a := range c.untilAll(t, client+k, items, &seen) {
					took(k-len(items)+i, items[i], a)
				}
			}
		})
	}
	eventually(t, "a third of the calls are answered", func() bool { return answered.Load() > int64(clients*keys/3) })
	killed := c.leader()
	c.proc[killed].kill()
	c.start(killed) // it comes back into the middle of it
	group.Wait()
	t.Logf("%d reserves of %d keys in %v, leader n%d killed; losers %v; on the way %v",
		clients*keys, keys, time.Since(began).Round(time.Millisecond), killed+1, losses, &seen)
	for what := range losses {
		if what != "409 in_flight" && what != "200 replayed" {
			t.Errorf("a loser was told %s", what)
		}
	}
	c.awaitReady(killed)
	c.settledState(0, 1, 2)
	for k := range keys {
		if len(grants[key(k)]) != 1 {
			t.Errorf("%s was granted to %v", key(k), grants[key(k)])
			continue
		}
		for g := range grants[key(k)] {
			r := c.look(k%3, "default", key(k), "local") // all nodes have applied the same
			if r == nil || r.AttemptID != g.attempt || r.Token != g.token || r.Attempt != 1 {
				t.Errorf("%s was granted to %v, the record says %s", key(k), g, show(r))
			}
		}
	}
}

// TestKillLeader: kill -9 of the leader under 32 writing clients, again and
// again; then a stop and start of all. Nothing that was acknowledged is lost.
func TestKillLeader(t *testing.T) {
	c := startTrio(t)
	w := startWriters(t, c.nodes, 32, "written")
	var moments []time.Time
	for range kills(t) {
		// Enough between two kills that each gap stands alone.
		before := w.count()
		eventually(t, "writes are acknowledged", func() bool { return w.count() > before+200 })
		victim := c.leader()
		moments = append(moments, time.Now())
		c.proc[victim].kill()
		before = w.count()
		eventually(t, "writes are acknowledged again", func() bool { return w.count() > before+100 })
		c.start(victim)
		c.awaitReady(victim)
	}
	w.finish()
	moments = append(moments, time.Now())
	var gaps []time.Duration
	for k := range len(moments) - 1 {
		gaps = append(gaps, w.gap(moments[k], moments[k+1]).Round(time.Millisecond))
	}
	ordered := slices.Sorted(slices.Values(gaps))
	t.Logf("%d commits acknowledged; longest time without an acknowledged write after each kill: %v, median %v; on the way %v",
		len(w.acks), gaps, ordered[len(ordered)/2], &w.seen)
	c.verify(t, w.acks)
	c.stopAndStartAll(t, w.acks)
}

// stopAndStartAll: after a stop of all nodes everything is as it was, and the
// order of tokens goes on.
func (c *trio) stopAndStartAll(t *testing.T, acks []ack) {
	const mine, other = "attempt-0123456789", "attempt-9876543210"
	reserve := func(i int, key, attempt, more string) *answer {
		return c.do(i, "POST", "/v1/namespaces/default/reserve", `{"key":"`+key+`","attemptId":"`+attempt+`"`+more+`}`)
	}
	held := c.must(201, reserve(0, "stopped-held-0001", mine, `,"lease":"10m"`))
	lapsed := c.must(201, reserve(1, "stopped-lapsed-0001", mine, `,"lease":"1ms"`))
	expired := c.must(201, reserve(2, "stopped-expired-0001", mine, `,"ttl":"1ms"`))
	c.must(200, c.call(0, "default", "commit", map[string]any{"key": "stopped-expired-0001", "token": expired.Token, "response": 1}))
	c.must(200, c.call(0, "default", "cancel", map[string]any{"key": "stopped-cancelled-0001", "reason": "r"}))
	newest := c.must(201, reserve(0, "stopped-released-0001", mine, ""))
	c.must(200, c.call(0, "default", "release", map[string]any{"key": "stopped-released-0001", "token": newest.Token}))
	eventually(t, "ttl and lease are over", func() bool {
		return c.record(0, "default", "stopped-expired-0001").Status == "expired" && c.record(0, "default", "stopped-lapsed-0001").Status == "uncertain"
	})
	sweepAll(c.nodes)
	keys := []string{"held", "lapsed", "expired", "cancelled", "released"}
	before := map[string]string{}
	for _, k := range keys {
		before[k] = show(settled(c.record(0, "default", "stopped-"+k+"-0001")))
	}
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if how == syscall.SIGTERM {
			c.stopAll()
			for i, p := range c.proc {
				if p.exit() != 0 {
					t.Errorf("n%d: SIGTERM ended it with %d", i+1, p.exit())
				}
			}
		} else {
			for _, p := range c.proc {
				p.kill()
			}
		}
		began := time.Now()
		c.startAll()
		c.awaitReady(0, 1, 2)
		t.Logf("all ended (%v) and started: ready after %v", how, time.Since(began).Round(time.Millisecond))
		c.verify(t, acks)
		for i := range 3 {
			for _, k := range keys {
				if now := show(settled(c.record(i, "default", "stopped-"+k+"-0001"))); now != before[k] {
					t.Errorf("%v: n%d has %s, it was %s", how, i+1, now, before[k])
				}
			}
			for k, want := range map[string]string{
				"held": "409 in_flight", "lapsed": "409 uncertain", "expired": "410 expired", "cancelled": "409 cancelled",
			} {
				a := reserve(i, "stopped-"+k+"-0001", other, "")
				if got := fmt.Sprint(a.status, " ", a.says()); got != want {
					t.Errorf("%v: %s through n%d: %s, want %s", how, k, i+1, a, want)
				}
			}
			if a := reserve(i, "stopped-held-0001", mine, ""); a.status != 201 || a.Token != held.Token || !*a.Resumed {
				t.Errorf("%v: the held claim through n%d: %s", how, i+1, a)
			}
			fresh := c.must(201, reserve(i, fmt.Sprintf("stopped-fresh-%d-%d", i, how), mine, ""))
			if !later(fresh.Token, newest.Token) {
				t.Errorf("%v: token %s after %s", how, fresh.Token, newest.Token)
			}
			newest = fresh
		}
	}
	// The effect of the lapsed claim is a fact: its holder says so, late.
	c.must(200, c.call(2, "default", "commit", map[string]any{"key": "stopped-lapsed-0001", "token": lapsed.Token}))
	c.must(200, reserve(1, "stopped-lapsed-0001", other, ""))
}
