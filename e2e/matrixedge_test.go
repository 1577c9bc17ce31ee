package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestMatrixSweep is the row "sweep, when due", with namespaces that keep
// things for milliseconds: what is removed, what raises the horizon, and that a
// claim that is uncertain is never removed.
func TestMatrixSweep(t *testing.T) {
	t.Parallel()
	n := dev(t)
	const short = `"retention":"1ms","ttl":"1ms"`
	for i, c := range []struct {
		state, policy string
		removed       bool
		horizon       bool
	}{
		{"P", `{` + short + `}`, false, false},
		{"U", `{` + short + `}`, false, false},
		{"L", `{` + short + `,"onLeaseExpiry":"rerun"}`, true, false},
		{"S", `{` + short + `}`, true, true},
		{"X", `{` + short + `,"onExpired":"rerun"}`, true, false},
		{"R", `{` + short + `}`, true, false},
		{"C", `{` + short + `}`, true, true},
		{"K", `{` + short + `}`, true, true},
	} {
		ns := "sweep-" + strings.ToLower(c.state)
		n.policy(ns, c.policy)
		node := i % 3
		s := &subject{nodes: n, ns: ns, key: born(time.Now().Add(-time.Minute)), state: c.state, verdict: "commit"}
		s.token = "77"
		if c.state != "C" {
			s.token = n.must(201, n.call(node, ns, "reserve", without(claimed(c.state, s.key, s.mine()), "op"))).Token
		}
		switch c.state {
		case "S", "X":
			n.must(200, n.call(node, ns, "commit", map[string]any{"key": s.key, "token": s.token, "response": 1}))
		case "R", "K":
			n.must(200, n.call(node, ns, "release", map[string]any{"key": s.key, "token": s.token}))
		}
		if c.state == "C" || c.state == "K" {
			// A released record may be swept before it is cancelled: then it is C.
			n.must(200, n.call(node, ns, "cancel", map[string]any{"key": s.key, "reason": "sweep"}))
		}
		if c.removed {
			// By the leader's own timer: nobody asks for a sweep here.
			eventually(t, c.state+" is removed", func() bool { return s.record(node) == nil })
		} else {
			eventually(t, "the claim is in its state", func() bool { return viewed(c.state, s.record(node)) })
			sweepAll(n)
			if r := s.record(node); !viewed(c.state, r) {
				t.Errorf("%s: swept: %s", c.state, show(r))
			}
		}
		probe := born(time.Now().Add(-time.Hour))
		want := 201
		if c.horizon {
			want = 410
		}
		if a := n.call((node+1)%3, ns, "reserve", map[string]any{"key": probe}); a.status != want {
			t.Errorf("%s: a key born before it was removed: %s, want %d", c.state, a, want)
		}
		if c.horizon {
			a := n.call((node+2)%3, ns, "reserve", map[string]any{"key": s.key})
			if a.status != 410 || a.Code != "idempotency_key_expired" || a.SafeNewKey {
				t.Errorf("%s: the removed key itself: %s", c.state, a)
			}
		}
	}
	n.settledState(0, 1, 2)
}

// TestBeforeAllColumns is what is refused whatever the state.
func TestBeforeAllColumns(t *testing.T) {
	t.Parallel()
	n := dev(t)
	n.policy("gone-ns", `{}`)
	n.policy("held-ns", `{}`)
	n.must(204, n.do(1, "DELETE", "/v1/namespaces/gone-ns", ""))
	token := n.must(201, n.call(0, "held-ns", "reserve", map[string]any{"key": "held-key-0001"})).Token
	if a := n.do(2, "DELETE", "/v1/namespaces/held-ns", ""); a.status != 409 || a.Code != "namespace_not_empty" {
		t.Errorf("DELETE of a namespace with a record: %s", a)
	}
	if a := n.do(1, "PUT", "/v1/namespaces/gone-ns", `{}`); a.status != 410 || a.Code != "namespace_retired" {
		t.Errorf("a retired name given out again: %s", a)
	}
	calls := map[string]map[string]any{
		"reserve": {}, "cancel": {"reason": "no"}, "commit": {"token": token}, "fail": {"token": token, "errorCode": "E"},
		"release": {"token": token}, "extend": {"token": token}, "resolve": {"token": token, "verdict": "committed", "reason": "r", "actor": "a"},
	}
	before := n.stored("default", "held-ns")
	for op, m := range calls {
		m["key"] = "held-key-0001"
		for i := range 3 {
			for ns, want := range map[string]string{"no-such-ns": "404 namespace_not_found", "gone-ns": "410 namespace_retired"} {
				a := n.call(i, ns, op, m)
				if got := fmt.Sprint(a.status, " ", a.Code); got != want || a.Detail == "" || a.Retryable || a.SafeNewKey {
					t.Errorf("%s in %s through n%d: %s, want %s", op, ns, i+1, a, want)
				}
			}
			bad := map[string]any{}
			for k, v := range m {
				bad[k] = v
			}
			bad["key"] = "short"
			if a := n.call(i, "held-ns", op, bad); a.status != 400 || a.Code != "idempotency_key_invalid" {
				t.Errorf("%s with a malformed key through n%d: %s", op, i+1, a)
			}
			if a := n.call(i, "held-ns", op, without(m, "key")); a.status != 400 || a.Code != "idempotency_key_missing" {
				t.Errorf("%s without a key through n%d: %s", op, i+1, a)
			}
		}
	}
	for i := range 3 {
		// Born more than min(24h, retention) ahead.
		if a := n.call(i, "held-ns", "reserve", map[string]any{"key": born(time.Now().Add(25 * time.Hour))}); a.status != 400 || a.Code != "idempotency_key_invalid" {
			t.Errorf("a key born tomorrow, through n%d: %s", i+1, a)
		}
	}
	if after := n.stored("default", "held-ns"); after != before {
		t.Errorf("refused calls changed the state:\n%s\nwas\n%s", after, before)
	}
}

// TestQuota: new claims and cancellations alone are refused, exactly at the
// bound; whoever holds a key goes on.
func TestQuota(t *testing.T) {
	t.Parallel()
	n := dev(t)
	n.policy("full-ns", `{"maxRecords":3}`)
	reserve := func(i int, key, attempt string) *answer {
		return n.call(i, "full-ns", "reserve", map[string]any{"key": key, "attemptId": attempt})
	}
	tokens := map[string]string{}
	for i := range 3 {
		key := fmt.Sprintf("full-key-000%d", i)
		tokens[key] = n.must(201, reserve(i, key, "attempt-0123456789")).Token
	}
	for i := range 3 {
		a := reserve(i, "full-key-0009", "attempt-0123456789")
		if a.status != 429 || a.Code != "quota_exceeded" || !a.Retryable || a.SafeNewKey || a.header.Get("Retry-After") == "" {
			t.Errorf("a fourth key through n%d: %s", i+1, a)
		}
		if a := n.call(i, "full-ns", "cancel", map[string]any{"key": "full-key-0009", "reason": "r"}); a.status != 429 {
			t.Errorf("a fourth key cancelled through n%d: %s", i+1, a)
		}
		key := fmt.Sprintf("full-key-000%d", i)
		if a := reserve((i+1)%3, key, "attempt-0123456789"); a.status != 201 || !*a.Resumed || a.Token != tokens[key] {
			t.Errorf("resumed in a full namespace: %s", a)
		}
		n.must(200, n.call((i+2)%3, "full-ns", "commit", map[string]any{"key": key, "token": tokens[key]}))
		n.must(200, reserve(i, key, "attempt-9876543210"))
	}
}

// TestWaitAcrossNodes: a parked duplicate gets the outcome, the grant after a
// release, or uncertain when the lease ends, whichever node it waits on.
func TestWaitAcrossNodes(t *testing.T) {
	t.Parallel()
	n := dev(t)
	for i := range 3 {
		for _, end := range []string{"commit", "fail", "release", "lapse", "cancelled wait"} {
			key := fmt.Sprintf("wait-%s-%d", strings.ReplaceAll(end, " ", "-"), i)
			lease, wait := "5m", "60s" // longer than the client waits: it must be woken
			switch end {
			case "lapse":
				lease = "300ms"
			case "cancelled wait":
				wait = "50ms"
			}
			token := n.must(201, n.call(0, "default", "reserve", map[string]any{"key": key, "attemptId": "first-attempt-0001", "lease": lease})).Token
			parked := n.park(i, map[string]any{"key": key, "attemptId": "second-attempt-001", "wait": wait}, end != "lapse" && end != "cancelled wait")
			want := ""
			switch end {
			case "commit":
				n.must(200, n.call(1, "default", "commit", map[string]any{"key": key, "token": token, "response": "done"}))
				want = "200 replayed"
			case "fail":
				n.must(200, n.call(1, "default", "fail", map[string]any{"key": key, "token": token, "errorCode": "NO"}))
				want = "200 replayed"
			case "release":
				n.must(200, n.call(1, "default", "release", map[string]any{"key": key, "token": token}))
				want = "201 reserved"
			case "lapse":
				want = "409 uncertain"
			default:
				want = "409 in_flight"
			}
			a := <-parked
			if got := fmt.Sprint(a.status, " ", a.says()); got != want {
				t.Errorf("%s, waiting on n%d: %s, want %s", end, i+1, a, want)
			}
			if end == "release" && (a.Token == token || a.Attempt != 2) {
				t.Errorf("after the release: %s", a)
			}
		}
	}
}

// park sends a reserve that waits through node i; with sure it returns once
// that node says that the call is parked.
func (n *nodes) park(i int, m map[string]any, sure bool) <-chan *answer {
	n.t.Helper()
	before := n.metric(i, "onced_parked_calls")
	out := make(chan *answer, 1)
	go func() { out <- n.call(i, "default", "reserve", m) }()
	if sure {
		eventually(n.t, "the call is parked", func() bool { return n.metric(i, "onced_parked_calls") > before })
	}
	return out
}
