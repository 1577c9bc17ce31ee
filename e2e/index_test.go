package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// metric reads one figure without labels from node i.
func (n *nodes) metric(i int, name string) float64 {
	n.t.Helper()
	a := n.must(200, n.get(i, "/metrics"))
	for line := range strings.Lines(string(a.raw)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return f
		}
	}
	n.t.Fatalf("n%d has no metric %s", i+1, name)
	return 0
}

// costs is what all nodes together have written and forwarded.
type costs struct{ entries, forwarded, local float64 }

func (n *nodes) costs() (c costs) {
	n.t.Helper()
	for i := range 3 {
		c.entries += n.metric(i, "onced_log_entries_total")
		c.forwarded += n.metric(i, "onced_forwarded_total")
		c.local += n.metric(i, "onced_local_answers_total")
	}
	return c
}

// quiet gives the costs of f. A cluster counts replays and checks its state by
// itself now and then: f is tried again until nothing of that fell into it, and
// what it costs at least is what it costs.
func (n *nodes) quiet(f func()) costs {
	n.t.Helper()
	least := costs{1e9, 1e9, 0}
	for range 4 {
		before := n.costs()
		f()
		after := n.costs()
		least.entries = min(least.entries, after.entries-before.entries)
		least.forwarded = min(least.forwarded, after.forwarded-before.forwarded)
		least.local = after.local - before.local
	}
	return least
}

// steady runs f until no leader changed meanwhile, and then takes its faults for
// what they are: on a machine that is busy enough, a heartbeat comes too late.
func (n *nodes) steady(f func(fault faulter)) {
	n.t.Helper()
	for try := 1; ; try++ {
		n.leader()
		term := n.metric(0, "onced_term")
		var faults []string
		f(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
		if len(faults) == 0 {
			return
		}
		n.leader()
		if n.metric(0, "onced_term") == term || try == 4 {
			for _, s := range faults {
				n.t.Error(s)
			}
			return
		}
	}
}

// TestBatchIndex: a batch is one entry, and its answers say so.
func TestBatchIndex(t *testing.T) {
	t.Parallel()
	n := dev(t)
	for i := range 3 {
		raised := []uint64{}
		for try := range 20 {
			first := n.must(201, n.call(i, "default", "reserve", map[string]any{"key": fmt.Sprintf("before-%d-%03d", i, try)})).index()
			var items []map[string]any
			for k := range 200 {
				items = append(items, map[string]any{"op": "reserve", "key": fmt.Sprintf("batch-%d-%03d-%03d", i, try, k)})
			}
			a := n.must(200, n.call(i, "default", "batch", map[string]any{"operations": items}))
			if strings.Count(string(a.raw), `"outcome":"reserved"`) != 200 {
				t.Fatalf("batch through n%d: %s", i+1, a)
			}
			raised = append(raised, a.index()-first)
			if a.index() == first+1 {
				break
			}
		}
		if raised[len(raised)-1] != 1 {
			t.Errorf("a batch through n%d raised Onced-Index by %v", i+1, raised)
		}
	}
	// Each item sees those before it, and the whole list has one time.
	a := n.call(1, "default", "batch", map[string]any{"operations": []map[string]any{
		{"op": "reserve", "key": "batch-seen-0001", "attemptId": "attempt-0123456789"},
		{"op": "reserve", "key": "batch-seen-0001", "attemptId": "attempt-9876543210"},
		{"op": "cancel", "key": "batch-seen-0002", "reason": "r"},
		{"op": "reserve", "key": "batch-seen-0002"},
		{"op": "nothing", "key": "batch-seen-0003"},
	}})
	for _, want := range []string{`{"status":201,`, `{"status":409,`, `"code":"idempotency_in_flight"`, `{"status":200,`, `"code":"idempotency_cancelled"`, `{"status":400,`} {
		if !strings.Contains(string(a.raw), want) {
			t.Errorf("the batch's answer lacks %s: %s", want, a)
		}
	}
}

// TestLocalReplayCostsNothing: a settled key is answered by the node that is
// asked, without the leader and the log.
func TestLocalReplayCostsNothing(t *testing.T) {
	t.Parallel()
	n := dev(t)
	n.policy("rerun-ns", `{"onExpired":"rerun"}`)
	keys := map[string]string{"default": "local-key-0001", "rerun-ns": "local-key-0001"}
	for ns, key := range keys {
		token := n.must(201, n.call(0, ns, "reserve", map[string]any{"key": key, "request": 1})).Token
		n.must(200, n.call(0, ns, "commit", map[string]any{"key": key, "token": token, "response": "r"}))
	}
	n.must(201, n.call(0, "default", "reserve", map[string]any{"key": "local-held-0001", "request": 1, "lease": "10m"}))
	n.settledState(0, 1, 2)
	n.steady(func(fault faulter) {
		leader := n.leader()
		for i := range 3 {
			ask := func(ns, key string, request, status int) func() {
				return func() {
					for range 20 {
						a := n.must(status, n.call(i, ns, "reserve", map[string]any{"key": key, "request": request}))
						if a.header.Get("Onced-Leader") != "n"+strconv.Itoa(leader+1) || a.header.Get("Onced-Node") != "n"+strconv.Itoa(i+1) {
							fault("n%d answered with Onced-Node %s, Onced-Leader %s", i+1, a.header.Get("Onced-Node"), a.header.Get("Onced-Leader"))
						}
					}
				}
			}
			if c := n.quiet(ask("default", keys["default"], 1, 200)); c != (costs{local: 20}) {
				fault("20 replays from n%d cost %+v", i+1, c)
			}
			// All items of a batch, too; and one that cannot be takes all with it.
			items := []map[string]any{}
			for range 20 {
				items = append(items, map[string]any{"op": "reserve", "key": keys["default"], "request": 1})
			}
			if c := n.quiet(func() { n.batch(i, "default", items) }); c != (costs{local: 20}) {
				fault("a batch of 20 replays from n%d cost %+v", i+1, c)
			}
			// A node's memory never says no, and nothing about rerun.
			for what, f := range map[string]func(){
				"a conflict":             ask("default", keys["default"], 2, 422),
				"a replay under rerun":   ask("rerun-ns", keys["rerun-ns"], 1, 200),
				"in flight":              ask("default", "local-held-0001", 1, 409),
				"a commit that is there": func() { n.call(i, "default", "commit", map[string]any{"key": "local-held-0001", "token": "1"}) },
			} {
				c := n.quiet(f)
				if c.entries == 0 || (i != leader) != (c.forwarded > 0) {
					fault("%s asked of n%d cost %+v", what, i+1, c)
				}
			}
		}
	})
}

// TestParkedDuplicatesCostNothing: duplicates that wait are no entries, however
// many they are; after the settlement they are all answered from memory.
func TestParkedDuplicatesCostNothing(t *testing.T) {
	t.Parallel()
	n := dev(t)
	const each = 30
	try := 0
	n.steady(func(fault faulter) {
		try++
		key := fmt.Sprintf("parked-key-%04d", try)
		token := n.must(201, n.call(0, "default", "reserve", map[string]any{"key": key, "lease": "5m"})).Token
		n.settledState(0, 1, 2)
		before := n.costs()
		var answers [3 * each]*answer
		var group sync.WaitGroup
		for k := range answers {
			group.Go(func() {
				answers[k] = n.call(k%3, "default", "reserve", map[string]any{"key": key, "wait": "60s"})
			})
		}
		eventually(t, "all are parked", func() bool {
			return n.metric(0, "onced_parked_calls") == each && n.metric(1, "onced_parked_calls") == each && n.metric(2, "onced_parked_calls") == each
		})
		parked := n.costs()
		n.must(200, n.call(1, "default", "commit", map[string]any{"key": key, "token": token, "response": "all"}))
		group.Wait()
		after := n.costs()
		for k, a := range answers {
			if a.status != 200 || a.Outcome != "replayed" || string(a.Record.Response) != `"all"` {
				fault("duplicate %d through n%d: %s", k, k%3+1, a)
			}
		}
		// A state check may fall in: one entry, forwarded by nobody.
		if d := parked.entries - before.entries; d > 1 || parked.forwarded != before.forwarded {
			fault("%d parked duplicates cost %v entries and %v forwards", 3*each, d, parked.forwarded-before.forwarded)
		}
		if d := after.entries - parked.entries; d > 6 {
			fault("answering them cost %v entries", d)
		}
		if after.local-parked.local != 3*each {
			fault("%v of %d were answered from memory", after.local-parked.local, 3*each)
		}
	})
}

// TestMinIndex: a read that names an index sees at least that, on any node, or
// says that it cannot.
func TestMinIndex(t *testing.T) {
	t.Parallel()
	n := dev(t)
	for k := range 60 {
		key := fmt.Sprintf("minindex-%04d", k)
		a := n.must(201, n.call(k%3, "default", "reserve", map[string]any{"key": key}))
		for i := range 3 {
			r := n.get(i, fmt.Sprintf("/v1/namespaces/default/records/%s?consistency=local&minIndex=%d", key, a.index()))
			if r.status != 200 || r.index() < a.index() {
				t.Errorf("n%d at index %d of %d: %s", i+1, r.index(), a.index(), r)
			}
		}
	}
	for i := range 3 {
		began := time.Now()
		a := n.do(i, "GET", "/v1/namespaces/default/records/minindex-0000?consistency=local&minIndex=999999999", "", "Onced-Timeout", "200ms")
		if a.status != 503 || a.Code != "idempotency_unavailable" || a.Applied != "no" || !a.Retryable || a.header.Get("Retry-After") == "" {
			t.Errorf("an index that is far off, n%d: %s", i+1, a)
		}
		t.Logf("n%d gave up after %v of 200ms", i+1, time.Since(began).Round(time.Millisecond))
	}
}

// TestB61_RoundRobin: one key asked round the nodes has one history.
func TestB61_RoundRobin(t *testing.T) {
	t.Parallel()
	n := dev(t)
	for k := range 30 {
		key := fmt.Sprintf("round-robin-%04d", k)
		ask := func(i int) *answer {
			return n.call(i%3, "default", "reserve", map[string]any{"key": key, "request": map[string]any{"k": k}})
		}
		grant := n.must(201, ask(k))
		n.must(200, n.do((k+1)%3, "POST", "/v1/namespaces/default/commit",
			`{"key":"`+key+`","token":"`+grant.Token+`","response":{ "n" : 1.50, "s":"\u00e9\/", "big":12345678901234567890 }}`))
		var first []byte
		for i := range 9 {
			a := n.must(200, ask(k+1+i))
			at := bytes.Index(a.raw, []byte(`"record":`))
			record, _, _ := bytes.Cut(a.raw[at:], []byte(`"replays":`)) // replays are counted as they come
			if first == nil {
				first = record
				if !bytes.Contains(record, []byte(`"response":{"n":1.50,"s":"\u00e9\/","big":12345678901234567890}`)) {
					t.Errorf("response not as it was sent: %s", record)
				}
			}
			if a.Outcome != "replayed" || a.header.Get("Idempotent-Replayed") != "true" || !bytes.Equal(record, first) {
				t.Errorf("replay %d: %s, the first was %s", i, a, first)
			}
		}
	}
}

// TestReplaysAreCounted: the figure comes in through the log, never twice.
func TestReplaysAreCounted(t *testing.T) {
	t.Parallel()
	n := dev(t)
	const key = "counted-key-0001"
	token := n.must(201, n.call(0, "default", "reserve", map[string]any{"key": key})).Token
	done := n.must(200, n.call(1, "default", "commit", map[string]any{"key": key, "token": token}))
	for k := range 33 {
		n.must(200, n.call(k%3, "default", "reserve", map[string]any{"key": key}))
	}
	eventually(t, "33 replays are counted", func() bool { return n.record(0, "default", key).Replays >= 33 })
	n.settledState(0, 1, 2)
	for i := range 3 {
		if r := n.record(i, "default", key); r.Replays != 33 || r.Version != done.Record.Version || r.LastReplayedAt == "" {
			t.Errorf("n%d: %s", i+1, show(r))
		}
	}
}
