package fsm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

// One test a rule that semantics.md marks M: each fails when its rule is taken
// out of the machine.

func TestM_NameRetired(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("team", nil)
	g.must(&Command{Op: fsmpb.Op_OP_NAMESPACE_DELETE, Namespace: "team", AttemptId: "d1"})
	g.refused("namespace_retired", &Command{Op: fsmpb.Op_OP_NAMESPACE_PUT, Namespace: "team", AttemptId: "p2"})
	g.m = restored(t, snapshotOf(t, g.m))
	g.refused("namespace_retired", &Command{Op: fsmpb.Op_OP_NAMESPACE_PUT, Namespace: "team", AttemptId: "p3"})
	if len(g.m.Namespaces()) != 1 {
		t.Fatal("a retired namespace is listed")
	}
}

func TestM_TokensOnlyRise(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	last := uint64(0)
	next := func(key, attempt string) *Record {
		t.Helper()
		r := g.must(reserve(key, attempt)).Record
		if r.Token <= last || r.Token < uint64(g.now) {
			t.Fatalf("token %d after %d at %d", r.Token, last, g.now)
		}
		last = r.Token
		return r
	}
	r := next(key1, "a")
	g.must(release(key1, r.Token))
	old := snapshotOf(t, g.m)
	r = next(key1, "b") // in the same microsecond
	g.must(release(key1, r.Token))
	g.pass(24 * time.Hour).must(sweep(0))
	next(key1, "c") // after the sweep
	g.m = restored(t, snapshotOf(t, g.m))
	next("order-00000002", "d") // after a restart
	g.m = restored(t, old)
	g.m.FenceRestore(g.now) // a backup from before all that
	next("order-00000003", "e")
	if g.m.LastToken() < uint64(g.now.Add(time.Hour)) {
		t.Fatal("a restore does not move tokens ahead of the log time that was lost")
	}
}

func TestRestoreRaisesHorizons(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	old := snapshotOf(t, g.m)
	born := keyBorn(g.now, 1)
	r := g.must(reserve(born, "a")).Record
	g.must(commit(born, r.Token, "o1"))
	g.m = restored(t, old)
	g.m.FenceRestore(g.pass(time.Second).now)
	g.refused("idempotency_key_expired", reserve(born, "b"))
	g.must(reserve(keyBorn(g.now.Add(time.Millisecond), 2), "c"))
	if g.m.Now() != g.now {
		t.Fatal("log time went back")
	}
	audit(t, g.m)
}

func TestM_TTLFromSettlement(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := reserve(key1, "a")
	c.TtlUs = Micros(time.Hour)
	r := g.must(c).Record
	if r.ExpiresAt != 0 || r.RetainedUntil != 0 {
		t.Fatal("a pending claim has a ttl")
	}
	g.pass(48 * time.Hour) // slower than its ttl: still settled, still replayed
	r = g.must(commit(key1, r.Token, "o1")).Record
	if r.ExpiresAt != g.now.Add(time.Hour) || r.RetainedUntil != g.now.Add(time.Hour+7*24*time.Hour) {
		t.Fatalf("expires %d, retained %d", r.ExpiresAt, r.RetainedUntil)
	}
	g.pass(time.Hour - time.Microsecond)
	if res := g.must(reserve(key1, "b")); res.Outcome != OutcomeReplayed {
		t.Fatal("not replayed until the ttl's end")
	}
	g.pass(time.Microsecond).refused("idempotency_key_expired", reserve(key1, "b"))
}

// Both the policy of the claim and today's must say rerun.
func TestM_RerunOfExpiredNeedsBoth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ then, today, granted bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		g := newRig(t)
		g.namespace("default", &fsmpb.PolicyPatch{RerunOnExpired: &c.then})
		settled(g, key1, fsmpb.Op_OP_COMMIT)
		g.namespace("default", &fsmpb.PolicyPatch{RerunOnExpired: &c.today})
		g.pass(24 * time.Hour)
		res := g.do(reserve(key1, "b"))
		if (res.Outcome == OutcomeReserved) != c.granted {
			t.Errorf("then %v, today %v: %s", c.then, c.today, answerName(res))
		}
		if p := res.Record.Previous; c.granted && (p == nil || p.Ended != "expired" || p.Attempt != 1 || res.Record.CreatedAt != g.now || res.Record.HasResponse) {
			t.Errorf("granted %+v", res.Record)
		}
	}
}

func TestM_TakeOverNeedsBoth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ then, today, granted bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		g := newRig(t)
		g.namespace("default", &fsmpb.PolicyPatch{RerunOnLeaseExpiry: &c.then})
		first := reserve(key1, "a")
		first.CorrelationId = "corr"
		old := g.must(first).Record
		g.namespace("default", &fsmpb.PolicyPatch{RerunOnLeaseExpiry: &c.today})
		g.pass(30*time.Second-time.Microsecond).refused("idempotency_in_flight", reserve(key1, "b"))
		g.pass(time.Microsecond)
		res := g.do(reserve(key1, "b"))
		if !c.granted {
			if res.Code != "idempotency_uncertain" {
				t.Errorf("then %v, today %v: %s", c.then, c.today, answerName(res))
			}
			continue
		}
		want := PreviousAttempt{1, "lapsed", old.ClaimedAt, old.LeaseExpiresAt, "corr"}
		if p := res.Record.Previous; p == nil || *p != want || res.Record.CreatedAt != t0 {
			t.Errorf("previous %+v, want %+v", p, want)
		}
	}
}

func TestM_ConflictBeforeAttempt(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.must(reserve(key1, "a"))
	c := reserve(key1, "a")
	c.RequestDigest = bHash
	g.refused("idempotency_key_conflict", c)
	g.must(release(key1, g.rec(key1).Token))
	c.AttemptId = "b"
	g.refused("idempotency_key_conflict", c)
}

func TestM_AttemptSpent(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	g.must(release(key1, r.Token))
	g.refused("idempotency_attempt_spent", reserve(key1, "a"))
	res := g.must(reserve(key1, "b"))
	if p := res.Record.Previous; p == nil || p.Ended != "released" || res.Record.Attempt != 2 {
		t.Fatalf("%+v", res.Record)
	}
	g.pass(30 * time.Second).must(resolve(key1, res.Record.Token, fsmpb.Verdict_VERDICT_NOT_APPLIED))
	g.refused("idempotency_attempt_spent", reserve(key1, "b"))
	if p := g.must(reserve(key1, "c")).Record.Previous; p.Ended != "not_applied" || p.Attempt != 2 {
		t.Fatalf("%+v", p)
	}
}

// "Already so" comes before expectedVersion.
func TestM_RepeatFirst(t *testing.T) {
	t.Parallel()
	at := func(c *Command, version uint64) *Command { c.ExpectedVersion = version; return c }
	for name, call := range map[string]func(uint64) *Command{
		"commit":  func(tok uint64) *Command { return commit(key1, tok, "o1") },
		"fail":    func(tok uint64) *Command { return fail(key1, tok, "o1") },
		"release": func(tok uint64) *Command { return release(key1, tok) },
	} {
		g := newRig(t)
		r := g.must(reserve(key1, "a")).Record
		before := g.m.sum
		res := g.refused("idempotency_stale_version", at(call(r.Token), 7))
		if res.Detail != "expectedVersion is 7, the stored version is 1" || !cmp.Equal(res.Record, r) || g.m.sum != before {
			t.Errorf("%s: %+v", name, res)
		}
		g.must(at(call(r.Token), 1))
		if res := g.must(at(call(r.Token), 1)); res.Changed {
			t.Errorf("%s: repeated", name)
		}
	}
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	g.refused("idempotency_stale_version", at(extend(key1, r.Token), 9))
	g.pass(time.Minute).refused("idempotency_stale_version", at(resolve(key1, r.Token, fsmpb.Verdict_VERDICT_FAILED), 9))
	g.must(at(resolve(key1, r.Token, fsmpb.Verdict_VERDICT_FAILED), 1))
	g.must(at(resolve(key1, r.Token, fsmpb.Verdict_VERDICT_FAILED), 1))
	r = g.must(reserve("order-00000002", "a")).Record
	g.must(release(r.Key, r.Token))
	g.refused("idempotency_stale_version", at(cancel(r.Key), 1))
	g.must(at(cancel(r.Key), 2))
	g.must(at(cancel(r.Key), 2))
}

// A holder past its lease whom nobody has replaced goes on.
func TestM_HolderLate(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	g.pass(time.Hour)
	res := g.must(extend(key1, r.Token))
	if res.LeaseRemaining != 30*time.Second || res.Record.LeaseExpiresAt != g.now.Add(30*time.Second) {
		t.Fatalf("%+v", res)
	}
	if status, _, _ := g.m.ViewStatus(res.Record, g.now); status != "pending" {
		t.Fatal(status)
	}
	res = g.pass(time.Hour).must(reserve(key1, "a"))
	if !res.Resumed || res.LeaseRemaining != 30*time.Second || res.Record.Token != r.Token {
		t.Fatalf("resumed: %+v", res)
	}
}

// The effect is a fact, whatever was said of the claim since.
func TestM_FactsWin(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(g *rig, r *Record){
		"released": func(g *rig, r *Record) { g.must(release(key1, r.Token)) },
		"not_applied": func(g *rig, r *Record) {
			g.pass(time.Minute).must(resolve(key1, r.Token, fsmpb.Verdict_VERDICT_NOT_APPLIED))
		},
		"cancelled": func(g *rig, r *Record) { g.must(release(key1, r.Token)); g.must(cancel(key1)) },
	} {
		g := newRig(t)
		r := g.must(reserve(key1, "a")).Record
		give(g, r)
		n := g.must(commit(key1, r.Token, "o1")).Record
		if n.Status != Committed || n.NotApplied || !n.HasResponse {
			t.Errorf("%s: %+v", name, n)
		}
		if res := g.must(reserve(key1, "b")); res.Outcome != OutcomeReplayed {
			t.Errorf("%s: %s", name, answerName(res))
		}
		audit(t, g.m)
	}
}

// A judgement of one attempt must not fall on its successor.
func TestM_ResolveNamesItsAttempt(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", rerunBoth())
	judged := g.must(reserve(key1, "a")).Record
	g.pass(time.Minute)
	next := g.must(reserve(key1, "b")).Record
	g.pass(time.Minute)
	for _, v := range []fsmpb.Verdict{1, 2, 3} {
		g.refused("idempotency_stale_token", resolve(key1, judged.Token, v))
	}
	if !cmp.Equal(g.rec(key1), next) {
		t.Fatal("touched")
	}
}

// Log time is what the log says, and never falls.
func TestM_TimeNeverFalls(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.must(reserve(key1, "a"))
	g.pass(-time.Hour).refused("idempotency_in_flight", reserve(key1, "b"))
	if g.m.Now() != t0 {
		t.Fatalf("log time %d", g.m.Now())
	}
	g.m.Apply(99, &Entry{TimeUs: 1 << 62})
	if g.m.Now() != maxTime {
		t.Fatal("a stamp without bounds is taken")
	}
}

func TestM_UncertainIsNeverSwept(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.must(reserve(key1, "a"))
	g.namespace("default", rerunBoth()) // does not reach back into the claim
	g.must(reserve("order-00000002", "a"))
	g.namespace("default", rerunNone()) // nor does it stay behind
	g.pass(20 * 365 * 24 * time.Hour)
	if res := g.must(sweep(0)); res.Dropped != 0 || res.Remaining != 0 {
		t.Fatalf("%+v", res)
	}
	g.refused("idempotency_uncertain", reserve(key1, "b"))
	g.refused("idempotency_uncertain", reserve("order-00000002", "b"))
	if st := g.m.Stats(g.now)["default"]; st.Uncertain != 2 || st.OldestUncertain != t0.Add(30*time.Second) {
		t.Fatalf("%+v", st)
	}
	g.namespace("default", rerunBoth())
	if res := g.must(sweep(0)); res.Dropped != 1 {
		t.Fatalf("%+v", res)
	}
	g.rec(key1)
	audit(t, g.m)
}

// Memory answers only with what can never be superseded, and never says no.
func TestM_LocalReplayIsImmutable(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ask := func(now Time) bool { _, ok := g.m.Replay(reserve(key1, "b"), now); return ok }
	settled(g, key1, fsmpb.Op_OP_COMMIT)
	r := g.rec(key1)
	if !ask(g.now) || !ask(r.ExpiresAt-1) || ask(r.ExpiresAt) || ask(r.ExpiresAt+1) {
		t.Fatal("the ttl's end")
	}
	for name, f := range map[string]func(*Command){
		"digest":      func(c *Command) { c.RequestDigest = bHash },
		"operation":   func(c *Command) { c.Operation = "x" },
		"key":         func(c *Command) { c.Key = "order-00000009" },
		"namespace":   func(c *Command) { c.Namespace = "x" },
		"fingerprint": func(c *Command) { c.Fingerprint = "trade:x" },
		"op":          func(c *Command) { c.Op = fsmpb.Op_OP_CANCEL },
		"late":        func(c *Command) { c.NotAfterUs = 1 },
	} {
		c := reserve(key1, "b")
		f(c)
		if res, ok := g.m.Replay(c, g.now); ok {
			t.Errorf("%s: answered %s", name, answerName(res))
		}
	}
	g.namespace("default", &fsmpb.PolicyPatch{RejectDuplicates: proto.Bool(true)})
	if res, ok := g.m.Replay(reserve(key1, "b"), g.now); !ok || res.Code != "idempotency_duplicate" || !cmp.Equal(res.Record, r) {
		t.Errorf("duplicate: %+v", res)
	}
	g.namespace("default", rerunBoth()) // a claim made under reject stays what it was
	if !ask(g.now) {
		t.Error("policy reaches back")
	}
	g.pass(24*time.Hour + 7*24*time.Hour).must(sweep(0))
	settled(g, key1, fsmpb.Op_OP_COMMIT)
	if ask(g.now) {
		t.Error("answered for a record that may be superseded")
	}
	g.namespace("default", rerunNone())
	if ask(g.now) {
		t.Error("answered for a record that was claimed under rerun")
	}
	g.must(put("team", "c1", nil))
	c := reserve(key1, "a")
	c.Namespace = "team"
	done := commit(key1, g.must(c).Record.Token, "o1")
	done.Namespace = "team"
	g.must(done)
	if _, ok := g.m.Replay(c, g.now); !ok {
		t.Error("not answered in another namespace")
	}
	g.must(drop("team", "d1", true))
	if _, ok := g.m.Replay(c, g.now); ok {
		t.Error("answered in a namespace that is gone")
	}
}

// A retry across the minute is a duplicate; a slow order is never placed twice.
func TestM_FingerprintPointer(t *testing.T) {
	t.Parallel()
	const text = "trade:kraken:BTC-USD:BUY:1:live"
	g := newRig(t)
	g.now = t0 - t0%minute + minute - 1 // the last microsecond of a minute
	first := g.must(trade(text, "a")).Record
	if first.Key != text+":30000000" || first.Fingerprint != text {
		t.Fatalf("key %s", first.Key)
	}
	g.pass(time.Microsecond) // the next minute
	g.refused("idempotency_in_flight", trade(text, "b"))
	if res := g.must(trade(text, "a")); !res.Resumed || res.Record.Key != first.Key {
		t.Fatalf("%+v", res)
	}
	g.pass(10*time.Minute).refused("idempotency_uncertain", trade(text, "b"))
	g.must(commit(first.Key, first.Token, "o1"))
	g.pass(30*time.Second - time.Microsecond)
	if res := g.must(trade(text, "b")); res.Outcome != OutcomeReplayed || res.Record.Key != first.Key {
		t.Fatalf("within the window: %s", answerName(res))
	}
	g.now += minute - 30_000_000 // another minute, the window is over
	second := g.must(trade(text, "c")).Record
	if second.Key == first.Key {
		t.Fatal("the same key again")
	}
	audit(t, g.m)
	g.must(release(second.Key, second.Token))
	if third := g.pass(time.Minute).must(trade(text, "d")).Record; third.Key == second.Key {
		t.Fatal("a released claim binds its fingerprint")
	}
	g.pass(9 * 24 * time.Hour).must(sweep(0)) // all but the pending one
	if st := g.m.Stats(g.now)["default"]; st.Records != 1 || g.m.prints.Len() != 1 {
		t.Fatalf("%+v, %d pointers", st, g.m.prints.Len())
	}
	g.refused("idempotency_uncertain", trade(text, "e"))
	audit(t, g.m)
	// The pointer goes with its record.
	r := g.m.prints.Items()[0]
	g.must(commit(r.key, g.rec(r.key).Token, "o"))
	g.pass(8 * 24 * time.Hour).must(sweep(0))
	if g.m.prints.Len() != 0 {
		t.Fatal("the pointer outlives its record")
	}
	audit(t, g.m)
}

func TestFingerprintWindowEdge(t *testing.T) {
	t.Parallel()
	for off, same := range map[time.Duration]bool{-1: true, 0: false, 1: false} {
		g := newRig(t)
		g.now = t0 - t0%minute + 50_000_000
		r := g.must(trade("trade:x", "a")).Record
		g.must(commit(r.Key, r.Token, "o1"))
		g.pass(30*time.Second + off*time.Microsecond)
		if res := g.must(trade("trade:x", "b")); (res.Record.Key == r.Key) != same {
			t.Errorf("%d µs from the window's end: %s", off, res.Record.Key)
		}
	}
}

// A key that carries its birth is expired for ever once it may have run.
func TestHorizon(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ahead := keyBorn(t0.Add(time.Hour), 1) // its maker's clock is an hour ahead
	r := g.must(reserve(ahead, "a")).Record
	g.must(commit(ahead, r.Token, "o1"))
	g.pass(8*24*time.Hour - time.Microsecond).must(sweep(0))
	g.refused("idempotency_key_expired", reserve(ahead, "b"))
	g.pass(time.Microsecond)
	if res := g.must(sweep(0)); res.Dropped != 1 {
		t.Fatalf("%+v", res)
	}
	g.refused("idempotency_key_expired", reserve(ahead, "b"))
	g.refused("idempotency_key_expired", cancel(ahead))
	g.m = restored(t, snapshotOf(t, g.m))
	g.refused("idempotency_key_expired", reserve(ahead, "b"))
	g.refused("idempotency_key_expired", reserve(keyBorn(t0.Add(time.Hour-time.Millisecond), 2), "b"))
	g.must(reserve(keyBorn(t0.Add(time.Hour+time.Millisecond), 3), "b"))
	g.must(reserve(key1, "b")) // carries no birth
}

func TestBornAhead(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.must(reserve(keyBorn(t0.Add(24*time.Hour), 1), "a"))
	for _, d := range []time.Duration{24*time.Hour + time.Millisecond, 200 * 365 * 24 * time.Hour} {
		g.refused("idempotency_key_invalid", reserve(keyBorn(t0.Add(d), 2), "a"))
		g.refused("idempotency_key_invalid", cancel(keyBorn(t0.Add(d), 2)))
	}
	g.refused("idempotency_key_invalid", reserve("ffffffff-ffff-7000-8000-000000000000", "a"))
	g.namespace("default", &fsmpb.PolicyPatch{RetentionUs: proto.Int64(Micros(time.Hour))})
	g.must(reserve(keyBorn(t0.Add(time.Hour), 3), "a"))
	g.refused("idempotency_key_invalid", reserve(keyBorn(t0.Add(time.Hour+time.Millisecond), 4), "a"))

	// Under rerun nothing moves the horizon, and retention 0 sets no bound.
	g.namespace("default", &fsmpb.PolicyPatch{Preset: proto.String("gateway")})
	far := keyBorn(t0.Add(48*time.Hour), 5)
	g.must(cancel(far))
	g.pass(5 * time.Minute).must(sweep(0))
	if ns, _ := g.m.Namespace("default"); ns.Horizon != 0 {
		t.Fatal("the horizon moved")
	}
	// A birth far ahead never moves it far ahead, whatever the policy became.
	g.must(cancel(far))
	g.namespace("default", &fsmpb.PolicyPatch{Preset: proto.String("strict")})
	g.pass(5 * time.Minute).must(sweep(0))
	if ns, _ := g.m.Namespace("default"); ns.Horizon != g.now.Add(-5*time.Minute) {
		t.Fatalf("horizon %d", ns.Horizon-g.now)
	}
}

// The removal of a cancelled key raises the horizon unless everything said
// rerun: the claim that was given back, the policy at the cancellation, and
// today's.
func TestHorizonOfCancelled(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		claim, cancelled, today := i&1 != 0, i&2 != 0, i&4 != 0
		g := newRig(t)
		k := keyBorn(t0, 1)
		set := func(rerun bool) { g.namespace("default", &fsmpb.PolicyPatch{RerunOnExpired: &rerun}) }
		set(claim)
		g.must(release(k, g.must(reserve(k, "a")).Record.Token))
		set(cancelled)
		g.must(cancel(k))
		set(today)
		if res := g.pass(8 * 24 * time.Hour).must(sweep(0)); res.Dropped != 1 {
			t.Fatalf("%+v", res)
		}
		if ns, _ := g.m.Namespace("default"); (ns.Horizon == 0) != (claim && cancelled && today) {
			t.Errorf("rerun at the claim %v, at the cancellation %v, today %v: horizon %d", claim, cancelled, today, ns.Horizon)
		}
	}
}
