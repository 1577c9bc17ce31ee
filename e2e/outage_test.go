package e2e

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestB66_TwoOfThreeDown: without a quorum nothing is decided, everything is
// answered, and what is settled is still replayed.
func TestB66_TwoOfThreeDown(t *testing.T) {
	t.Parallel()
	c := startTrio(t)
	c.policy("rerun-ns", `{"onExpired":"rerun"}`)
	tokens := map[string]string{}
	for _, ns := range []string{"default", "rerun-ns"} {
		for _, key := range []string{"settled-key-0001", "held-key-0001"} {
			tokens[ns+key] = c.must(201, c.call(0, ns, "reserve", map[string]any{"key": key, "request": 1, "lease": "10m"})).Token
		}
		c.must(200, c.call(1, ns, "commit", map[string]any{"key": "settled-key-0001", "token": tokens[ns+"settled-key-0001"], "response": "kept"}))
	}
	before := c.settledState(0, 1, 2)
	leader := c.leader()
	for _, survivor := range []int{leader, (leader + 1) % 3} {
		for i := range 3 {
			if i != survivor {
				c.proc[i].kill()
			}
		}
		c.alone(t, survivor, tokens["defaultheld-key-0001"])
		for i := range 3 {
			if i != survivor {
				c.start(i)
			}
		}
		c.awaitReady(0, 1, 2)
	}
	for _, op := range []string{"reserve", "cancel"} {
		for survivor := range 3 {
			if r := c.record(0, "default", fmt.Sprintf("lost-%s-000%d", op, survivor)); r != nil {
				t.Errorf("%s was answered 503 with applied no, and yet there is %s", op, show(r))
			}
		}
	}
	for i := range 3 {
		r := c.record(i, "default", "held-key-0001")
		if r == nil || r.Token != tokens["defaultheld-key-0001"] || r.Version > 2 {
			t.Errorf("n%d: %s", i+1, show(r))
		}
	}
	c.must(200, c.call(0, "default", "commit", map[string]any{"key": "held-key-0001", "token": tokens["defaultheld-key-0001"]}))
	if after := c.settledState(0, 1, 2); after.index <= before.index {
		t.Errorf("index %d after %d", after.index, before.index)
	}
}

// alone asks everything of the one node that is left.
func (c *trio) alone(t *testing.T, i int, held string) {
	t.Helper()
	killed := time.Now()
	// A leader needs a moment to learn that it is alone; until then it may
	// answer 503 unknown.
	eventually(t, "the node that is left knows it", func() bool { return c.get(i, "/readyz").status == 503 })
	eventually(t, "/readyz gives the reason and who is silent", func() bool {
		a := c.get(i, "/readyz")
		reason := string(a.raw)
		return a.status == 503 && strings.Contains(reason, "no leader is known") &&
			strings.Contains(reason, fmt.Sprintf("n%d", (i+1)%3+1)) && strings.Contains(reason, fmt.Sprintf("n%d", (i+2)%3+1))
	})
	t.Logf("/readyz said so %v after the kill: %s", time.Since(killed).Round(time.Millisecond), c.get(i, "/readyz").raw)
	if a := c.get(i, "/healthz"); a.status != 200 {
		t.Errorf("/healthz: %s", a)
	}
	hold := map[string]any{"key": "held-key-0001", "token": held}
	with := func(m map[string]any, more ...any) map[string]any {
		m = without(m, "")
		for k := range len(more) / 2 {
			m[more[2*k].(string)] = more[2*k+1]
		}
		return m
	}
	var group sync.WaitGroup
	ask := func(what string, f func() *answer) {
		group.Go(func() {
			began := time.Now()
			a := f()
			if a.status != 503 || a.Code != "idempotency_unavailable" || !a.Retryable || a.header.Get("Retry-After") == "" || a.Applied != "no" {
				t.Errorf("%s with two of three down: %s", what, a)
			}
			// Not a measure of speed: it must not hang.
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("%s took %v of the 1 s it had", what, took)
			}
		})
	}
	post := func(op string, m map[string]any) {
		ask(op+" "+toJSON(m), func() *answer { return c.call(i, "default", op, m, "Onced-Timeout", "1s") })
	}
	lost := fmt.Sprintf("lost-%%s-000%d", i)
	post("reserve", map[string]any{"key": fmt.Sprintf(lost, "reserve")})
	post("reserve", map[string]any{"key": "held-key-0001", "request": 1}) // memory never says no
	post("reserve", map[string]any{"key": "settled-key-0001", "request": 2})
	post("cancel", map[string]any{"key": fmt.Sprintf(lost, "cancel"), "reason": "r"})
	post("commit", hold)
	post("fail", with(hold, "errorCode", "E"))
	post("release", hold)
	post("extend", hold)
	post("resolve", with(hold, "verdict", "failed", "reason", "r", "actor", "a"))
	ask("a replay under rerun", func() *answer {
		return c.call(i, "rerun-ns", "reserve", map[string]any{"key": "settled-key-0001", "request": 1}, "Onced-Timeout", "1s")
	})
	ask("a namespace", func() *answer { return c.do(i, "PUT", "/v1/namespaces/lost-ns", `{}`, "Onced-Timeout", "1s") })
	ask("a sweep", func() *answer { return c.do(i, "POST", "/v1/sweep", "", "Onced-Timeout", "1s") })
	for _, path := range []string{"/v1/namespaces/default/records/settled-key-0001", "/v1/namespaces/default/records", "/v1/audit"} {
		ask("GET "+path, func() *answer { return c.do(i, "GET", path, "", "Onced-Timeout", "1s") })
	}
	group.Go(func() {
		a := c.call(i, "default", "reserve", map[string]any{"key": fmt.Sprintf(lost, "reserve")}, "Onced-Timeout", "1s")
		if a.status != 503 || len(a.AttemptID) < 16 {
			t.Errorf("a reserve whose attemptId was made here: %s", a)
		}
	})
	group.Go(func() {
		for range 20 {
			a := c.call(i, "default", "reserve", map[string]any{"key": "settled-key-0001", "request": 1})
			if a.status != 200 || string(a.Record.Response) != `"kept"` {
				t.Errorf("a settled key with two of three down: %s", a)
			}
		}
		for _, path := range []string{
			"/v1/namespaces/default/records/settled-key-0001?consistency=local", "/v1/namespaces/default/records?consistency=local",
			"/v1/stats", "/v1/cluster", "/metrics", "/openapi.json", "/",
		} {
			if a := c.get(i, path); a.status != 200 {
				t.Errorf("GET %s with two of three down: %s", path, a)
			}
		}
		batch := c.call(i, "default", "batch", map[string]any{"operations": []map[string]any{
			{"op": "reserve", "key": "settled-key-0001", "request": 1}, with(hold, "op", "commit"), {"op": "reserve", "key": "short"},
		}}, "Onced-Timeout", "1s")
		for k, a := range batch.results(t) {
			if want := []int{503, 503, 400}[k]; a.status != want {
				t.Errorf("item %d of a batch with two of three down: %s, want %d", k, a, want)
			}
		}
	})
	group.Wait()
}

// TestPausedLeader: a leader that stands still is replaced; when it goes on, it
// decides nothing that is not so any more.
func TestPausedLeader(t *testing.T) {
	c := startTrio(t)
	c.policy("rerun-ns", `{"onLeaseExpiry":"rerun"}`)
	for round := range 3 {
		old := c.leader()
		next := (old + 1) % 3
		key := func(k int) string { return fmt.Sprintf("paused-%d-%04d", round, k) }
		const mine, other = "attempt-0123456789", "attempt-9876543210"
		held := c.must(201, c.call(next, "rerun-ns", "reserve", map[string]any{"key": key(0), "attemptId": mine, "lease": "500ms"}))
		settledKey := c.must(201, c.call(next, "default", "reserve", map[string]any{"key": key(0), "attemptId": mine}))
		c.must(200, c.call(next, "default", "commit", map[string]any{"key": key(0), "token": settledKey.Token, "response": 1}))
		c.settledState(0, 1, 2)

		began := time.Now()
		c.proc[old].signal(syscall.SIGSTOP)
		// What waits at the paused leader's door: reserves that it will read when
		// it goes on, of keys that the others will have granted by then; and its
		// old holder, who wants to go on and to settle.
		const waiting = 20
		var conns [waiting + 2]net.Conn
		for k := range waiting {
			conns[k] = c.raw(old, request("default", "reserve", map[string]any{"key": key(k + 1), "attemptId": mine}))
		}
		conns[waiting] = c.raw(old, request("rerun-ns", "commit", map[string]any{"key": key(0), "token": held.Token, "response": "late"}))
		conns[waiting+1] = c.raw(old, request("rerun-ns", "extend", map[string]any{"key": key(0), "token": held.Token}))

		var seen unsettled
		var first *answer
		eventually(t, "a write is acknowledged by the others", func() bool {
			first = c.call(next, "default", "reserve", map[string]any{"key": key(1), "attemptId": other}, "Onced-Timeout", "300ms")
			return first.status == 201
		})
		t.Logf("next acknowledged write %v after the leader was paused", time.Since(began).Round(time.Millisecond))
		granted := map[int]string{1: first.Token}
		for k := 2; k <= waiting; k++ {
			granted[k] = c.call(next, "default", "reserve", map[string]any{"key": key(k), "attemptId": other}).Token
		}
		var taken *answer
		eventually(t, "the lapsed claim is taken over", func() bool {
			taken = c.call((old+2)%3, "rerun-ns", "reserve", map[string]any{"key": key(0), "attemptId": other, "lease": "5m"}, "Onced-Timeout", "1s")
			return taken.status == 201
		})
		if taken.Attempt != 2 || taken.PreviousAttempt == nil || taken.PreviousAttempt.Ended != "lapsed" || !later(taken.Token, held.Token) {
			t.Errorf("the take-over: %s", taken)
		}

		// Readers at the paused leader's door, after the grants were acknowledged:
		// to say that there is no such key would be a lie.
		var readers [waiting]net.Conn
		for k := range readers {
			readers[k] = c.raw(old, head("GET", "/v1/namespaces/default/records/"+key(k+1)))
		}
		c.proc[old].signal(syscall.SIGCONT)
		for k, conn := range readers {
			a := readAnswer(conn)
			if a.status != 503 && (a.status != 200 || !strings.Contains(string(a.raw), `"token":"`+granted[k+1]+`"`)) {
				t.Errorf("round %d, %s read at the paused leader: %s, granted was %s", round, key(k+1), a, granted[k+1])
			}
		}
		for k, conn := range conns {
			a := readAnswer(conn)
			switch {
			case k < waiting && (a.status == 409 && a.says() == "in_flight" || a.status == 503):
			case k >= waiting && (a.status == 409 && a.says() == "stale_token" || a.status == 503):
			default:
				t.Errorf("round %d, call %d that waited at the paused leader: %s", round, k, a)
			}
		}
		// What it knows, it may say; what it does not, it must not.
		if a := c.call(old, "default", "reserve", map[string]any{"key": key(0)}); a.status != 200 {
			t.Errorf("the settled key, from the leader that was paused: %s", a)
		}
		for k := 1; k <= waiting; k++ {
			a := c.until(t, old, "reserve", map[string]any{"key": key(k), "attemptId": mine}, &seen)
			if a.status != 409 || a.says() != "in_flight" {
				t.Errorf("%s, through n%d after the pause: %s", key(k), old+1, a)
			}
			if r := c.record(old, "default", key(k)); r == nil || r.Token != granted[k] || r.AttemptID != other || r.Attempt != 1 {
				t.Errorf("%s after the pause: %s, granted was %s", key(k), show(r), granted[k])
			}
		}
		if r := c.record(old, "rerun-ns", key(0)); r == nil || r.Token != taken.Token || r.Status != "pending" || r.Version != taken.Record.Version {
			t.Errorf("the taken-over claim after the pause: %s", show(r))
		}
		c.awaitReady(0, 1, 2)
		c.settledState(0, 1, 2)
	}
}
