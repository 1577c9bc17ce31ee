package fsm

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

func put(name, call string, patch *fsmpb.PolicyPatch) *Command {
	return &Command{Op: fsmpb.Op_OP_NAMESPACE_PUT, Namespace: name, AttemptId: call, Policy: patch, Actor: "ann"}
}

func drop(name, call string, force bool) *Command {
	return &Command{Op: fsmpb.Op_OP_NAMESPACE_DELETE, Namespace: name, AttemptId: call, Force: force, Actor: "ann"}
}

func TestDefaultNamespace(t *testing.T) {
	t.Parallel()
	ns, ok := New().Namespace("default")
	strict, _ := Preset("strict")
	if !ok || ns.Version != 1 || ns.CreatedAt != 0 || ns.Policy != strict {
		t.Fatalf("%+v", ns)
	}
	newRig(t).refused("invalid_request", drop("default", "d", true))
}

func TestNamespacePut(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	hour := &fsmpb.PolicyPatch{TtlUs: proto.Int64(Micros(time.Hour))}
	res := g.must(put("team", "c1", hour))
	if res.Outcome != OutcomeNamespaceCreated || !res.Changed || res.Namespace.Version != 1 || res.Namespace.Policy.TTL != time.Hour {
		t.Fatalf("%+v", res)
	}
	if res = g.must(put("team", "c1", hour)); res.Outcome != OutcomeNamespaceCreated || res.Changed {
		t.Fatalf("the same call again: %+v", res)
	}
	if res = g.must(put("team", "c2", hour)); res.Outcome != OutcomeNamespaceChanged || res.Changed || res.Namespace.Version != 1 {
		t.Fatalf("nothing to change: %+v", res)
	}
	c := put("team", "c3", &fsmpb.PolicyPatch{Preset: proto.String("gateway"), TtlUs: proto.Int64(Micros(time.Minute))})
	c.ExpectedVersion = 2
	if res = g.refused("idempotency_stale_version", c); res.Namespace.Version != 1 {
		t.Fatalf("%+v", res)
	}
	c.ExpectedVersion = 1
	res = g.pass(time.Second).must(c)
	want, _ := Preset("gateway")
	want.TTL = time.Minute
	if res.Outcome != OutcomeNamespaceChanged || res.Namespace.Version != 2 || res.Namespace.Policy != want ||
		res.Namespace.CreatedAt != t0 || res.Namespace.UpdatedAt != g.now {
		t.Fatalf("%+v", res.Namespace)
	}
	if res = g.must(c); res.Changed || res.Outcome != OutcomeNamespaceChanged { // RepeatFirst
		t.Fatalf("the same call again: %+v", res)
	}
	c = put("other", "c4", nil)
	c.ExpectedVersion = 1
	g.refused("idempotency_stale_version", c)
	c.ExpectedVersion, c.NotAfterUs = 0, int64(g.now)-1
	g.refused("idempotency_unavailable", c)
	if _, ok := g.m.Namespace("other"); ok {
		t.Fatal("made all the same")
	}
	for _, name := range []string{"", "A", "-a", "a/b", "a b", strings.Repeat("a", 64)} {
		g.refused("invalid_request", put(name, "c5", nil))
	}
	g.must(put(strings.Repeat("a", 63), "c6", nil))
	audit(t, g.m)
}

func TestNamespaceDelete(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.must(put("team", "c1", nil))
	g.must(put("tean", "c1", nil))
	g.refused("namespace_not_found", drop("nowhere", "d", false))
	in := func(ns string, c *Command) *Command { c.Namespace = ns; return c }
	for i := range 25 {
		g.must(in("team", trade("trade:"+string(rune('a'+i)), "a")))
		g.must(in("tean", reserve(key1+string(rune('a'+i)), "a")))
	}
	g.refused("namespace_not_empty", drop("team", "d1", false))
	g.refused("namespace_retired", in("team", func() *Command { g.must(drop("team", "d1", true)); return reserve(key1, "b") }()))
	if res := g.must(drop("team", "d1", true)); res.Changed || res.Outcome != OutcomeNamespaceDeleted {
		t.Fatalf("the same call again: %+v", res)
	}
	g.refused("namespace_retired", drop("team", "d2", true))
	// Out of reach at once, in every read.
	key := "trade:a:30000000"
	if _, ok := g.m.Record("team", key); ok {
		t.Error("Record")
	}
	if recs, _ := g.m.Records("team", ListOptions{Limit: 99}, g.now); len(recs) != 0 {
		t.Error("Records")
	}
	if _, ok := g.m.Stats(g.now)["team"]; ok {
		t.Error("Stats")
	}
	if ns, ok := g.m.Namespace("team"); !ok || !ns.Retired {
		t.Error("Namespace")
	}
	// Removed by bounded sweeps, alike on a restored machine.
	twin := restored(t, snapshotOf(t, g.m))
	for i, want := range []int{10, 10, 5, 0} {
		if at, ok := g.m.NextDue(); ok != (want > 0) || ok && at > g.now {
			t.Errorf("sweep %d: due %v at %d", i, ok, at)
		}
		res := g.must(sweep(10))
		twin.Apply(g.m.Index(), &Entry{TimeUs: int64(g.now), Commands: []*Command{sweep(10)}})
		if res.Dropped != want || res.Remaining != max(0, 25-10*(i+1)) {
			t.Errorf("sweep %d: %+v", i, res)
		}
		if !bytes.Equal(snapshotOf(t, g.m), snapshotOf(t, twin)) {
			t.Fatalf("sweep %d: a restored machine does otherwise", i)
		}
		audit(t, g.m)
	}
	if g.m.prints.Len() != 0 || g.m.Stats(g.now)["tean"].Records != 25 {
		t.Error("too little or too much is gone")
	}
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	strict, _ := Preset("strict")
	for _, c := range []struct {
		field string // refused with it; "" for taken
		patch *fsmpb.PolicyPatch
	}{
		{"", nil},
		{"", &fsmpb.PolicyPatch{}},
		{"preset", &fsmpb.PolicyPatch{Preset: proto.String("lax")}},
		{"preset", &fsmpb.PolicyPatch{Preset: proto.String("")}},
		{"ttl", &fsmpb.PolicyPatch{TtlUs: proto.Int64(999)}},
		{"", &fsmpb.PolicyPatch{TtlUs: proto.Int64(1000)}},
		{"", &fsmpb.PolicyPatch{TtlUs: proto.Int64(Micros(MaxTTL))}},
		{"ttl", &fsmpb.PolicyPatch{TtlUs: proto.Int64(Micros(MaxTTL) + 1)}},
		{"ttl", &fsmpb.PolicyPatch{TtlUs: proto.Int64(1 << 62)}},
		{"retention", &fsmpb.PolicyPatch{RetentionUs: proto.Int64(-1)}},
		{"", &fsmpb.PolicyPatch{RetentionUs: proto.Int64(0)}},
		{"retention", &fsmpb.PolicyPatch{RetentionUs: proto.Int64(Micros(MaxTTL) + 1)}},
		{"lease", &fsmpb.PolicyPatch{LeaseUs: proto.Int64(999)}},
		{"", &fsmpb.PolicyPatch{LeaseUs: proto.Int64(1000)}},
		{"", &fsmpb.PolicyPatch{LeaseUs: proto.Int64(Micros(time.Hour))}},
		{"lease", &fsmpb.PolicyPatch{LeaseUs: proto.Int64(Micros(time.Hour) + 1)}},
		{"maxLease", &fsmpb.PolicyPatch{MaxLeaseUs: proto.Int64(Micros(29 * time.Second))}},
		{"lease", &fsmpb.PolicyPatch{MaxLeaseUs: proto.Int64(1000), LeaseUs: proto.Int64(2000)}},
		{"", &fsmpb.PolicyPatch{MaxLeaseUs: proto.Int64(1000), LeaseUs: proto.Int64(1000)}},
		{"maxLease", &fsmpb.PolicyPatch{MaxLeaseUs: proto.Int64(0)}},
		{"maxResponseBytes", &fsmpb.PolicyPatch{MaxResponseBytes: proto.Int64(-1)}},
		{"", &fsmpb.PolicyPatch{MaxResponseBytes: proto.Int64(0)}},
		{"", &fsmpb.PolicyPatch{MaxResponseBytes: proto.Int64(256 << 10)}},
		{"maxResponseBytes", &fsmpb.PolicyPatch{MaxResponseBytes: proto.Int64(256<<10 + 1)}},
		{"maxRecords", &fsmpb.PolicyPatch{MaxRecords: proto.Int64(-1)}},
		{"maxBytes", &fsmpb.PolicyPatch{MaxBytes: proto.Int64(-1)}},
		{"maxBytes", &fsmpb.PolicyPatch{MaxBytes: proto.Int64(1<<62 + 1)}},
		{"fingerprintWindow", &fsmpb.PolicyPatch{FingerprintWindowUs: proto.Int64(-1)}},
		{"fingerprintWindow", &fsmpb.PolicyPatch{FingerprintWindowUs: proto.Int64(Micros(24*time.Hour) + 1)}},
	} {
		p, err := ApplyPatch(strict, c.patch)
		var field *FieldError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%v: %v", c.patch, err)
		case c.field != "" && (!errors.As(err, &field) || field.Field != c.field || p != strict):
			t.Errorf("%v: want %s refused, got %v", c.patch, c.field, err)
		}
		g := newRig(t)
		before := g.m.sum
		if res := g.do(put("default", "c", c.patch)); (res.Code == "invalid_request") != (c.field != "") ||
			c.field != "" && (!strings.HasPrefix(res.Detail, c.field+": ") || g.m.sum != before) {
			t.Errorf("%v: %+v", c.patch, res)
		}
	}
	// The preset first, then the members.
	p, err := ApplyPatch(strict, &fsmpb.PolicyPatch{
		Preset: proto.String("gateway"), TtlUs: proto.Int64(5000), RetentionUs: proto.Int64(6000),
		LeaseUs: proto.Int64(7000), MaxLeaseUs: proto.Int64(8000), RerunOnLeaseExpiry: proto.Bool(true),
		RerunOnExpired: proto.Bool(false), RejectDuplicates: proto.Bool(false), Redact: proto.Bool(true),
		MaxResponseBytes: proto.Int64(1), MaxRecords: proto.Int64(2), MaxBytes: proto.Int64(3),
		FingerprintWindowUs: proto.Int64(9000),
	})
	want := Policy{
		TTL: 5 * time.Millisecond, Retention: 6 * time.Millisecond, Lease: 7 * time.Millisecond, MaxLease: 8 * time.Millisecond,
		RerunOnLeaseExpiry: true, Redact: true, MaxResponseBytes: 1, MaxRecords: 2, MaxBytes: 3, FingerprintWindow: 9 * time.Millisecond,
	}
	if err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
}
