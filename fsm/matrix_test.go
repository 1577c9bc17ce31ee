package fsm

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onced/onced/fsm/fsmpb"
)

// The states of semantics.md section 11, each built by calls alone. The record
// of the key, where there is one, was claimed by attempt "mine" with request
// aHash and operation "pay", and settled with the outcome "o1".
var matrixStates = []struct {
	name  string
	build func(g *rig, k string, verdict fsmpb.Op)
}{
	{"A", func(g *rig, k string, v fsmpb.Op) {}},
	{"H", func(g *rig, k string, v fsmpb.Op) {
		other := keyBorn(t0, 99)
		res := g.must(reserve(other, "gone"))
		g.must(commit(other, res.Record.Token, "o1"))
		g.pass(8 * 24 * time.Hour).must(sweep(0))
	}},
	{"P", func(g *rig, k string, v fsmpb.Op) { g.must(reserve(k, "mine")); g.pass(time.Second) }},
	{"U", func(g *rig, k string, v fsmpb.Op) { g.must(reserve(k, "mine")); g.pass(30 * time.Second) }},
	{"L", func(g *rig, k string, v fsmpb.Op) {
		g.namespace("default", rerunBoth())
		g.must(reserve(k, "mine"))
		g.pass(30 * time.Second)
	}},
	{"S", func(g *rig, k string, v fsmpb.Op) { settled(g, k, v); g.pass(24*time.Hour - time.Microsecond) }},
	{"E", func(g *rig, k string, v fsmpb.Op) { settled(g, k, v); g.pass(24 * time.Hour) }},
	{"X", func(g *rig, k string, v fsmpb.Op) {
		g.namespace("default", rerunBoth())
		settled(g, k, v)
		g.pass(24 * time.Hour)
	}},
	{"R", func(g *rig, k string, v fsmpb.Op) {
		res := g.must(reserve(k, "mine"))
		g.pass(time.Second).must(release(k, res.Record.Token))
	}},
	{"C", func(g *rig, k string, v fsmpb.Op) { g.must(cancel(k)); g.pass(time.Second) }},
	{"K", func(g *rig, k string, v fsmpb.Op) {
		res := g.must(reserve(k, "mine"))
		g.must(release(k, res.Record.Token))
		g.pass(time.Second).must(cancel(k))
	}},
}

func settled(g *rig, k string, v fsmpb.Op) {
	g.tb.Helper()
	res := g.must(reserve(k, "mine"))
	g.pass(time.Second).must(outcome(v, k, res.Record.Token, "o1"))
}

func outcome(v fsmpb.Op, k string, token uint64, digest string) *Command {
	if v == fsmpb.Op_OP_FAIL {
		return fail(k, token, digest)
	}
	return commit(k, token, digest)
}

func otherVerdict(v fsmpb.Op) fsmpb.Op {
	if v == fsmpb.Op_OP_FAIL {
		return fsmpb.Op_OP_COMMIT
	}
	return fsmpb.Op_OP_FAIL
}

// stateName reads the column off a record.
func stateName(m *Machine, k string) string {
	r, ok := m.Record("default", k)
	if !ok {
		return "A"
	}
	switch status, _, takeover := m.ViewStatus(r, m.Now()); {
	case status == "pending":
		return "P"
	case takeover:
		return "L"
	case status == "uncertain":
		return "U"
	case status == "expired" && mayRerun(r, m.spaces["default"].ns):
		return "X"
	case status == "expired":
		return "E"
	case status == "released":
		return "R"
	case status == "cancelled" && r.Token != 0:
		return "K"
	case status == "cancelled":
		return "C"
	}
	return "S"
}

func answerName(res Result) string {
	switch {
	case res.Code != "":
		return strings.TrimPrefix(strings.TrimPrefix(string(res.Code), "idempotency_"), "key_")
	case res.Outcome == OutcomeReserved && res.Resumed:
		return "resumed"
	case res.Outcome == OutcomeReserved && res.Record.Attempt > 1:
		return "granted+1"
	case res.Outcome == OutcomeReserved:
		return "granted"
	case res.Outcome == OutcomeReplayed:
		return "replayed"
	case !res.Changed:
		return "repeat"
	}
	return "ok"
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	type call func(k string, token uint64, v fsmpb.Op) *Command
	with := func(c *Command, f func(*Command)) *Command { f(c); return c }
	verdictOf := func(v fsmpb.Op) fsmpb.Verdict {
		if v == fsmpb.Op_OP_FAIL {
			return fsmpb.Verdict_VERDICT_FAILED
		}
		return fsmpb.Verdict_VERDICT_COMMITTED
	}
	stated := func(k string, token uint64, v fsmpb.Op, digest string) *Command {
		c := outcome(v, k, token, digest)
		c.Op, c.Verdict = fsmpb.Op_OP_RESOLVE, verdictOf(v)
		return c
	}
	const absent = "not_found not_found "
	// Columns: A H P U L S E X R C K. "answer>STATE" changes the record.
	rows := []struct {
		name  string
		cells string
		calls []call
	}{
		{
			"reserve, last attemptId, same request",
			"granted>P expired resumed>P resumed>P resumed>P replayed expired granted+1>P attempt_spent cancelled cancelled",
			[]call{func(k string, _ uint64, _ fsmpb.Op) *Command { return reserve(k, "mine") }},
		},
		{
			"reserve, other attemptId, same request",
			"granted>P expired in_flight uncertain granted+1>P replayed expired granted+1>P granted+1>P cancelled cancelled",
			[]call{func(k string, _ uint64, _ fsmpb.Op) *Command { return reserve(k, "other") }},
		},
		{
			"reserve, other request or operation, any attemptId",
			"granted>P expired conflict conflict conflict conflict expired granted+1>P conflict cancelled cancelled",
			[]call{
				func(k string, _ uint64, _ fsmpb.Op) *Command {
					return with(reserve(k, "other"), func(c *Command) { c.RequestDigest = bHash })
				},
				func(k string, _ uint64, _ fsmpb.Op) *Command {
					return with(reserve(k, "mine"), func(c *Command) { c.RequestDigest = bHash })
				},
				func(k string, _ uint64, _ fsmpb.Op) *Command {
					return with(reserve(k, "other"), func(c *Command) { c.Operation = "refund" })
				},
				func(k string, _ uint64, _ fsmpb.Op) *Command {
					return with(reserve(k, "mine"), func(c *Command) { c.Operation = "refund" })
				},
			},
		},
		{
			"commit / fail, last token, first time or same outcome",
			absent + "ok>S ok>S ok>S repeat repeat repeat ok>S stale_token ok>S",
			[]call{func(k string, tok uint64, v fsmpb.Op) *Command { return outcome(v, k, tok, "o1") }},
		},
		{
			"commit / fail, last token, another outcome",
			absent + "ok>S ok>S ok>S already_settled already_settled already_settled ok>S stale_token ok>S",
			[]call{
				func(k string, tok uint64, v fsmpb.Op) *Command { return outcome(v, k, tok, "o2") },
				func(k string, tok uint64, v fsmpb.Op) *Command { return outcome(otherVerdict(v), k, tok, "o1") },
			},
		},
		{
			"release, last token",
			absent + "ok>R ok>R ok>R already_settled already_settled already_settled repeat stale_token stale_token",
			[]call{func(k string, tok uint64, _ fsmpb.Op) *Command { return release(k, tok) }},
		},
		{
			"extend, last token",
			absent + "ok>P ok>P ok>P already_settled already_settled already_settled stale_token stale_token stale_token",
			[]call{func(k string, tok uint64, _ fsmpb.Op) *Command { return extend(k, tok) }},
		},
		{
			"any of these four, another token",
			absent + strings.Repeat("stale_token ", 9),
			[]call{
				func(k string, tok uint64, v fsmpb.Op) *Command { return commit(k, tok-1, "o1") },
				func(k string, tok uint64, v fsmpb.Op) *Command { return fail(k, tok+1, "o1") },
				func(k string, tok uint64, v fsmpb.Op) *Command { return release(k, tok-1) },
				func(k string, tok uint64, v fsmpb.Op) *Command { return extend(k, tok-1) },
			},
		},
		{
			"any of these four, and resolve, no token",
			strings.Repeat("token_missing ", 11),
			[]call{
				func(k string, _ uint64, v fsmpb.Op) *Command { return commit(k, 0, "o1") },
				func(k string, _ uint64, v fsmpb.Op) *Command { return fail(k, 0, "o1") },
				func(k string, _ uint64, v fsmpb.Op) *Command { return release(k, 0) },
				func(k string, _ uint64, v fsmpb.Op) *Command { return extend(k, 0) },
				func(k string, _ uint64, v fsmpb.Op) *Command { return stated(k, 0, v, "o1") },
				func(k string, _ uint64, v fsmpb.Op) *Command {
					return resolve(k, 0, fsmpb.Verdict_VERDICT_NOT_APPLIED)
				},
			},
		},
		{
			"resolve committed / failed, last token, same verdict",
			absent + "in_flight ok>S ok>S repeat repeat repeat ok>S stale_token ok>S",
			[]call{
				func(k string, tok uint64, v fsmpb.Op) *Command { return stated(k, tok, v, "o1") },
				func(k string, tok uint64, v fsmpb.Op) *Command { return resolve(k, tok, verdictOf(v)) },
			},
		},
		{
			"resolve committed / failed, last token, other verdict or outcome",
			absent + "in_flight ok>S ok>S already_settled already_settled already_settled ok>S stale_token ok>S",
			[]call{
				func(k string, tok uint64, v fsmpb.Op) *Command { return stated(k, tok, v, "o2") },
				func(k string, tok uint64, v fsmpb.Op) *Command { return stated(k, tok, otherVerdict(v), "o1") },
				func(k string, tok uint64, v fsmpb.Op) *Command { return resolve(k, tok, verdictOf(otherVerdict(v))) },
			},
		},
		{
			"resolve not_applied, last token",
			absent + "in_flight ok>R ok>R already_settled already_settled already_settled repeat stale_token stale_token",
			[]call{func(k string, tok uint64, _ fsmpb.Op) *Command {
				return resolve(k, tok, fsmpb.Verdict_VERDICT_NOT_APPLIED)
			}},
		},
		{
			"resolve, another token",
			absent + strings.Repeat("stale_token ", 9),
			[]call{
				func(k string, tok uint64, v fsmpb.Op) *Command { return stated(k, tok-1, v, "o1") },
				func(k string, tok uint64, v fsmpb.Op) *Command {
					return resolve(k, tok+1, fsmpb.Verdict_VERDICT_NOT_APPLIED)
				},
			},
		},
		{
			"cancel",
			"ok>C expired in_flight uncertain uncertain already_settled expired ok>C ok>K repeat repeat",
			[]call{func(k string, _ uint64, _ fsmpb.Op) *Command { return cancel(k) }},
		},
		{
			"any command that is late",
			strings.Repeat("unavailable ", 11),
			[]call{
				func(k string, _ uint64, _ fsmpb.Op) *Command {
					return with(reserve(k, "mine"), func(c *Command) { c.NotAfterUs = 1 })
				},
				func(k string, _ uint64, _ fsmpb.Op) *Command {
					return with(cancel(k), func(c *Command) { c.NotAfterUs = 1 })
				},
			},
		},
	}
	k := keyBorn(t0.Add(-time.Hour), 1)
	for _, row := range rows {
		cells := strings.Fields(row.cells)
		if len(cells) != len(matrixStates) {
			t.Fatalf("%s: %d cells", row.name, len(cells))
		}
		for i, state := range matrixStates {
			for _, verdict := range []fsmpb.Op{fsmpb.Op_OP_COMMIT, fsmpb.Op_OP_FAIL} {
				for _, call := range row.calls {
					matrixCell(t, row.name, state.name, cells[i], func() *rig {
						g := newRig(t)
						state.build(g, k, verdict)
						g.entry()
						return g
					}, k, func(token uint64) *Command { return call(k, token, verdict) })
				}
			}
		}
	}
}

func matrixCell(t *testing.T, row, state, cell string, build func() *rig, k string, call func(token uint64) *Command) {
	t.Helper()
	want, next, changes := strings.Cut(cell, ">")
	g, twin := build(), build()
	before, token := Record{}, g.m.LastToken()
	if r, ok := g.m.Record("default", k); ok {
		before = *r
		token = r.Token
	}
	if at := stateName(g.m, k); at != state && (state != "H" || at != "A") {
		t.Fatalf("%s: built state %s", state, at)
	}
	if token == 0 { // never claimed: any token is another one
		token = 77
	}
	res := g.do(call(token))
	twin.entry()
	if got := answerName(res); got != want {
		t.Errorf("%s, in state %s: answered %s, want %s", row, state, got, want)
	}
	audit(t, g.m)
	after, _ := g.m.Record("default", k)
	if !changes {
		if after != nil && !cmp.Equal(before, *after) {
			t.Errorf("%s, in state %s: record touched:\n%s", row, state, cmp.Diff(before, *after))
		}
		if g.m.StateHash() != twin.m.StateHash() || !bytes.Equal(snapshotOf(t, g.m), snapshotOf(t, twin.m)) {
			t.Errorf("%s, in state %s: the state is not what it was", row, state)
		}
		if res.Changed {
			t.Errorf("%s, in state %s: says that it changed something", row, state)
		}
		return
	}
	switch {
	case after == nil || stateName(g.m, k) != next:
		t.Errorf("%s, in state %s: now %s, want %s", row, state, stateName(g.m, k), next)
	case !cmp.Equal(after, res.Record) || !res.Changed:
		t.Errorf("%s, in state %s: the answer is not the stored record", row, state)
	case after.Version != before.Version+1:
		t.Errorf("%s, in state %s: version %d after %d", row, state, after.Version, before.Version)
	case strings.HasPrefix(want, "granted") && (after.Token <= before.Token || after.Attempt != before.Attempt+1):
		t.Errorf("%s, in state %s: token %d attempt %d after %d, %d", row, state, after.Token, after.Attempt, before.Token, before.Attempt)
	case want == "resumed" && (after.Token != before.Token || after.LeaseExpiresAt != g.now.Add(30*time.Second)):
		t.Errorf("%s, in state %s: not the same grant with its lease renewed", row, state)
	}
}

// The row "sweep, when due": nothing a microsecond before, and what it says at
// the time.
func TestMatrixSweep(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		state     string
		due       time.Duration // after the call that built the state; -1: never
		tombstone bool
		horizon   bool
	}{
		{"A", -1, false, false},
		{"P", -1, false, false},
		{"U", -1, false, false},
		{"L", 8 * day, false, false}, // lease end + ttl + retention
		{"S", 0, true, true},         // at the ttl's end: bytes dropped
		{"E", 7 * day, false, true},
		{"X", 7 * day, false, false},
		{"R", day, false, false},
		{"C", 8 * day, false, true},
		{"K", 8 * day, false, true},
	} {
		g := newRig(t)
		k := keyBorn(t0.Add(-time.Hour), 1)
		for _, s := range matrixStates {
			if s.name == c.state {
				s.build(g, k, fsmpb.Op_OP_COMMIT)
			}
		}
		if c.state == "C" || c.state == "K" {
			g.now = g.m.Now()
		}
		g.must(sweep(0)) // drops what E and X hold of the response
		if c.due < 0 {
			before := g.m.sum
			g.pass(10 * 365 * day)
			if res := g.must(sweep(0)); res.Dropped+res.Tombstoned+res.Remaining != 0 || g.m.sum != before {
				t.Errorf("%s: swept: %+v", c.state, res)
			}
			continue
		}
		if c.tombstone {
			g.pass(time.Microsecond)
			if res := g.must(sweep(0)); res.Tombstoned != 1 || res.Dropped != 0 {
				t.Errorf("%s: at the ttl's end: %+v", c.state, res)
			}
			r := g.rec(k)
			if !r.Dropped || r.Response != nil || r.HasResponse || r.OutcomeDigest != "o1" || stateName(g.m, k) != "E" {
				t.Errorf("%s: tombstone %+v", c.state, r)
			}
			c.due = 7 * day
		}
		g.pass(c.due - time.Microsecond)
		if at, ok := g.m.NextDue(); !ok || at != g.now+1 {
			t.Errorf("%s: next due %d, want %d", c.state, at, g.now+1)
		}
		if res := g.must(sweep(0)); res.Dropped != 0 {
			t.Errorf("%s: removed too early", c.state)
		}
		g.pass(time.Microsecond)
		if res := g.must(sweep(0)); res.Dropped != 1 || res.Remaining != 0 {
			t.Errorf("%s: not removed: %+v", c.state, res)
		}
		if ns, _ := g.m.Namespace("default"); (ns.Horizon == t0) != c.horizon || (ns.Horizon == 0) == c.horizon {
			t.Errorf("%s: horizon %d", c.state, ns.Horizon)
		}
		audit(t, g.m)
	}
}

// The rows "time passes", "GET status" and "answered from a node's own memory".
func TestMatrixRead(t *testing.T) {
	t.Parallel()
	k := keyBorn(t0.Add(-time.Hour), 1)
	for i, want := range []string{
		"404 no", "404 no", "pending no", "uncertain no", "uncertain takeover no",
		"failed yes", "expired failed no", "expired failed no", "released no", "cancelled no", "cancelled no",
	} {
		s := matrixStates[i]
		g := newRig(t)
		s.build(g, k, fsmpb.Op_OP_FAIL)
		got := "404"
		if r, ok := g.m.Record("default", k); ok {
			status, verdict, takeover := g.m.ViewStatus(r, g.now)
			got = strings.TrimSpace(status + " " + verdict)
			if takeover {
				got += " takeover"
			}
		}
		if _, ok := g.m.Replay(reserve(k, "other"), g.now); ok {
			got += " yes"
		} else {
			got += " no"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", s.name, got, want)
		}
		// As it was a microsecond before the edge.
		edge := map[string]string{"U": "pending", "L": "pending", "E": "failed", "X": "failed"}
		if was, ok := edge[s.name]; ok {
			if status, _, _ := g.m.ViewStatus(g.rec(k), g.now-1); status != was {
				t.Errorf("%s: a microsecond before: %s, want %s", s.name, status, was)
			}
		}
	}
}

// Before all columns.
func TestBeforeAllRows(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("gone", nil)
	g.must(&Command{Op: fsmpb.Op_OP_NAMESPACE_DELETE, Namespace: "gone"})
	for _, op := range []fsmpb.Op{1, 2, 3, 4, 5, 6, 7} {
		c := &Command{Op: op, Namespace: "nowhere", Key: key1, AttemptId: "a", Token: 1}
		g.refused("namespace_not_found", c)
		c.Namespace = "gone"
		g.refused("namespace_retired", c)
		c.Namespace, c.Key = "default", ""
		g.refused("idempotency_key_missing", c)
	}
	g.refused("invalid_request", reserve(key1, ""))
	both := reserve(key1, "a")
	both.Fingerprint = "trade:x"
	g.refused("invalid_request", both)

	c := reserve(key1, "a")
	c.NotAfterUs = int64(g.now) - 1
	g.refused("idempotency_unavailable", c)
	c.NotAfterUs++
	g.must(c)
	audit(t, g.m)
}

func TestConflictNamesWhichDiffers(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.must(reserve(key1, "a"))
	for want, f := range map[string]func(*Command){
		"the key was used with another request":                       func(c *Command) { c.RequestDigest = "secret" },
		"the key was used with another operation":                     func(c *Command) { c.Operation = "secret" },
		"the key was used with another request and another operation": func(c *Command) { c.RequestDigest, c.Operation = "secret", "x" },
	} {
		c := reserve(key1, "b")
		f(c)
		if res := g.refused("idempotency_key_conflict", c); res.Detail != want {
			t.Errorf("detail %q, want %q", res.Detail, want)
		}
	}
}
