package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

// B46: the old holder settles or frees nothing of its successor.
func TestB46_StaleTokenTouchesNothing(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", rerunBoth())
	old := g.must(reserve(key1, "a")).Record
	g.pass(time.Minute)
	next := g.must(reserve(key1, "b")).Record
	before := g.m.sum
	for _, c := range []*Command{
		release(key1, old.Token), commit(key1, old.Token, "o1"), fail(key1, old.Token, "o1"), extend(key1, old.Token),
	} {
		g.refused("idempotency_stale_token", c)
	}
	if !cmp.Equal(g.rec(key1), next) || g.m.sum != before {
		t.Fatal("touched")
	}
}

// B40: asking again does not move the ttl.
func TestB40_ReplaysDoNotRefreshTheTTL(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	settled(g, key1, fsmpb.Op_OP_COMMIT)
	r := g.rec(key1)
	for range 5 {
		g.pass(4 * time.Hour)
		if res := g.must(reserve(key1, "b")); res.Outcome != OutcomeReplayed || !cmp.Equal(res.Record, r) {
			t.Fatal("the record moved")
		}
	}
	g.now = r.ExpiresAt
	g.refused("idempotency_key_expired", reserve(key1, "b"))
}

// B26, B27: neither an early end nor an endless one: who leads and how often
// time is stamped, or stamped wrongly, is nothing to a ttl.
func TestB26_B27_TTLEndsAtItsLogTime(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	settled(g, key1, fsmpb.Op_OP_COMMIT)
	end := g.now.Add(24 * time.Hour)
	for i := range 10 {
		g.now = end - 10 + Time(i)
		g.must(&Command{Op: fsmpb.Op_OP_TICK})
		g.m.Apply(g.m.Index()+1, &Entry{TimeUs: int64(t0)}) // a new leader, its clock behind
		if res := g.must(reserve(key1, "b")); res.Outcome != OutcomeReplayed {
			t.Fatalf("expired %d µs early", end-g.now)
		}
	}
	g.now = end
	g.refused("idempotency_key_expired", reserve(key1, "b"))
}

// B45: every edge to the microsecond, at -1, 0 and +1.
func TestB45_Edges(t *testing.T) {
	t.Parallel()
	at := func(g *rig, edge Time, off Time) *rig { g.now = edge + off; return g }
	for off := Time(-1); off <= 1; off++ {
		live := off < 0
		g := newRig(t)
		r := g.must(reserve(key1, "a")).Record
		res := at(g, r.LeaseExpiresAt, off).do(reserve(key1, "b"))
		if (res.Code == "idempotency_in_flight") != live || live && res.RetryAfter != time.Microsecond {
			t.Errorf("lease %+d: %s, retry after %v", off, res.Code, res.RetryAfter)
		}
		if st := g.m.Stats(g.now)["default"]; (st.Pending == 1) != live || (st.Uncertain == 1) == live {
			t.Errorf("lease %+d: %+v", off, st)
		}
		g.must(commit(key1, r.Token, "o1"))
		r = g.rec(key1)
		_, local := g.m.Replay(reserve(key1, "b"), r.ExpiresAt+off)
		res = at(g, r.ExpiresAt, off).do(reserve(key1, "b"))
		if (res.Outcome == OutcomeReplayed) != live || local != live {
			t.Errorf("ttl %+d: %s, local %v", off, answerName(res), local)
		}
		if st := g.m.Stats(g.now)["default"]; (st.Committed == 1) != live || (st.Expired == 1) == live {
			t.Errorf("ttl %+d: %+v", off, st)
		}
		if res := g.must(sweep(0)); (res.Tombstoned == 0) != live {
			t.Errorf("ttl %+d: %+v", off, res)
		}
		if res := at(g, r.RetainedUntil, off).must(sweep(0)); (res.Dropped == 0) != live {
			t.Errorf("retention %+d: %+v", off, res)
		}
		g = newRig(t)
		c := reserve(key1, "a")
		c.NotAfterUs = int64(t0)
		if res := at(g, t0, off).do(c); (res.Code == "idempotency_unavailable") != (off > 0) {
			t.Errorf("deadline %+d: %s", off, res.Code)
		}
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ask := func(c *Command, lease time.Duration) *Command { c.LeaseUs = Micros(lease); return c }
	res := g.must(ask(reserve(key1, "a"), 10*time.Minute))
	if res.LeaseRemaining != 10*time.Minute || res.Record.LeaseExpiresAt != t0.Add(10*time.Minute) {
		t.Fatalf("%+v", res)
	}
	// Never shortened, by an extension or a resumption.
	for _, c := range []*Command{ask(extend(key1, res.Record.Token), time.Second), ask(reserve(key1, "a"), time.Second)} {
		if n := g.must(c); !cmp.Equal(n.Record, res.Record) || n.Changed || n.LeaseRemaining != 10*time.Minute {
			t.Errorf("%v: %+v", c.Op, n)
		}
	}
	// Cut to maxLease.
	if n := g.must(ask(extend(key1, res.Record.Token), 400*24*time.Hour)); n.LeaseRemaining != time.Hour {
		t.Errorf("%v", n.LeaseRemaining)
	}
	if n := g.must(ask(reserve("order-00000002", "a"), 1<<62)); n.LeaseRemaining != time.Hour {
		t.Errorf("%v", n.LeaseRemaining)
	}
	c := ask(reserve("order-00000003", "a"), -5)
	c.TtlUs = 1 << 62
	if n := g.must(c); n.LeaseRemaining != 30*time.Second || n.Record.TTL != MaxTTL {
		t.Errorf("%+v", n)
	}
}

func TestResponseTooLarge(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", &fsmpb.PolicyPatch{MaxResponseBytes: proto.Int64(10)})
	for n, omitted := range map[int]bool{9: false, 10: false, 11: true} {
		key := "order-0000000" + strings.Repeat("x", n)
		r := g.must(reserve(key, "a")).Record
		c := commit(key, r.Token, "o1")
		c.Response = []byte(strings.Repeat("1", n))
		r = g.must(c).Record
		if r.ResponseOmitted != omitted || r.HasResponse == omitted || (r.Response == nil) != omitted || r.Status != Committed {
			t.Errorf("%d bytes: %+v", n, r)
		}
		if res := g.must(c); res.Changed {
			t.Error("the same outcome again is written")
		}
		if res := g.must(reserve(key, "b")); res.Record.ResponseOmitted != omitted {
			t.Error("a replay does not say so")
		}
	}
	r := g.must(reserve(key1, "a")).Record
	c := commit(key1, r.Token, "o1")
	c.Response, c.HasResponse, c.ResponseOmitted = nil, false, true // by the edge
	if r = g.must(c).Record; !r.ResponseOmitted || r.HasResponse {
		t.Errorf("%+v", r)
	}
	r = g.must(reserve("order-00000002", "a")).Record
	if r = g.must(fail(r.Key, r.Token, "o2")).Record; r.HasResponse || r.ResponseOmitted || r.ErrorCode != "declined" {
		t.Errorf("no response given: %+v", r)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", &fsmpb.PolicyPatch{MaxRecords: proto.Int64(2)})
	r1 := g.must(reserve(key1, "a")).Record
	g.must(cancel("order-00000002"))
	before := g.m.LastToken()
	g.refused("quota_exceeded", reserve("order-00000003", "a"))
	g.refused("quota_exceeded", cancel("order-00000003"))
	if g.m.LastToken() != before {
		t.Fatal("a refused claim took a token")
	}
	// Everything that is there already works.
	g.must(reserve(key1, "a"))
	g.must(extend(key1, r1.Token))
	g.must(release(key1, r1.Token))
	r1 = g.must(reserve(key1, "b")).Record
	g.must(commit(key1, r1.Token, "o1"))
	g.must(reserve(key1, "c"))
	// A tombstone counts until it is removed.
	g.pass(24 * time.Hour).must(sweep(0))
	g.refused("quota_exceeded", reserve("order-00000003", "a"))
	g.pass(7 * 24 * time.Hour).must(sweep(0))
	g.must(reserve("order-00000003", "a"))

	// maxBytes, to the byte.
	g = newRig(t)
	size := Size(g.must(reserve(key1, "a")).Record)
	g.namespace("default", &fsmpb.PolicyPatch{MaxBytes: proto.Int64(2*size - 1)})
	g.refused("quota_exceeded", reserve("order-00000002", "a"))
	g.namespace("default", &fsmpb.PolicyPatch{MaxBytes: proto.Int64(2 * size)})
	r := g.must(reserve("order-00000002", "a")).Record
	g.must(commit(r.Key, r.Token, strings.Repeat("long", 999)))
	audit(t, g.m)
}

func TestDuplicateUnderReject(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", &fsmpb.PolicyPatch{RejectDuplicates: proto.Bool(true)})
	settled(g, key1, fsmpb.Op_OP_FAIL)
	if res := g.refused("idempotency_duplicate", reserve(key1, "mine")); res.Record.Status != Failed {
		t.Fatal("does not say what became of it")
	}
	c := reserve(key1, "b")
	c.Operation = "other"
	g.refused("idempotency_key_conflict", c)
}

// A batch is decided in order, at one time, each seeing those before it.
func TestEntryInOrder(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	res := g.entry(reserve(key1, "a"), reserve(key1, "b"), reserve(key1, "a"), reserve("order-00000002", "a"))
	for i, want := range []string{"granted", "in_flight", "resumed", "granted"} {
		if got := answerName(res[i]); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if res[3].Record.Token != res[0].Record.Token+1 {
		t.Error("tokens within one microsecond")
	}
}

func TestRecordsAreImmutable(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	was := *r
	g.must(commit(key1, r.Token, "o1"))
	if !cmp.Equal(*r, was) {
		t.Fatal("a record that was handed out has changed")
	}
}
