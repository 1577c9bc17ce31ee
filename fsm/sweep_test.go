package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/onced/onced/fsm/fsmpb"
)

// fill settles n keys, a thousand an entry.
func fill(g *rig, n int) {
	g.tb.Helper()
	for i := 0; i < n; i += 1000 {
		var claims, commits []*Command
		for j := i; j < min(n, i+1000); j++ {
			claims = append(claims, reserve(fmt.Sprintf("order-%08d", j), "a"))
		}
		for j, res := range g.entry(claims...) {
			commits = append(commits, commit(claims[j].Key, res.Record.Token, "o1"))
		}
		g.entry(commits...)
	}
}

// B58: what is over goes, down to nothing, without being read again. B60: in
// steps that are bounded however much is due.
func TestB58_B60_SweepIsBoundedAndComplete(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, 5000)
	g.pass(24 * time.Hour)
	for i := 1; i <= 10; i++ {
		if res := g.must(sweep(500)); res.Tombstoned != 500 || res.Dropped != 0 || res.Remaining != 5000-500*i {
			t.Fatalf("%d: %+v", i, res)
		}
	}
	if res := g.must(sweep(500)); res.Changed || res.Remaining != 0 {
		t.Fatalf("nothing is due: %+v", res)
	}
	g.pass(7 * 24 * time.Hour)
	if res := g.must(sweep(0)); res.Dropped != DefaultSweepLimit || res.Remaining != 4000 {
		t.Fatalf("default limit: %+v", res)
	}
	if res := g.must(sweep(1 << 31)); res.Dropped != 4000 || res.Remaining != 0 {
		t.Fatalf("the rest: %+v", res)
	}
	if st := g.m.Stats(g.now)["default"]; st != (NamespaceStats{}) {
		t.Fatalf("%+v", st)
	}
	if _, ok := g.m.NextDue(); ok || g.m.store.dues.Len()+g.m.store.leases.Len()+g.m.store.lapses.Len() != 0 {
		t.Fatal("indexes are not empty")
	}
	audit(t, g.m)

	fill(g, 12_000)
	g.pass(8 * 24 * time.Hour)
	if res := g.must(sweep(1 << 31)); res.Dropped != MaxSweep {
		t.Fatalf("no limit at all: %+v", res)
	}
}

// A sweep that drops a response changes the record, so its version rises: an
// ETag must not stand for two contents.
func TestTombstoneRaisesTheVersion(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, 1)
	before, _ := g.m.Record("default", "order-00000000")
	g.pass(24 * time.Hour)
	if res := g.must(sweep(1)); res.Tombstoned != 1 {
		t.Fatalf("%+v", res)
	}
	after, _ := g.m.Record("default", "order-00000000")
	if after.Version != before.Version+1 || !after.Dropped {
		t.Errorf("version %d after %d, dropped %v", after.Version, before.Version, after.Dropped)
	}
}

func TestSweepInExpiryOrder(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for i, ttl := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
		c := reserve(fmt.Sprintf("order-%08d", i), "a")
		c.TtlUs = Micros(ttl)
		r := g.must(c).Record
		g.must(commit(r.Key, r.Token, "o1"))
	}
	g.pass(4 * time.Hour)
	for _, key := range []string{"order-00000001", "order-00000002", "order-00000000"} {
		g.must(sweep(1))
		if !g.rec(key).Dropped {
			t.Fatalf("%s is not next", key)
		}
	}
}

// Claims that may not be removed today do not stand before those that may.
func TestLapsedDoNotClogTheSweep(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", rerunBoth())
	for i := range 50 {
		g.must(reserve(fmt.Sprintf("order-%08d", i), "a"))
	}
	g.namespace("default", rerunNone())
	g.namespace("team", rerunBoth())
	for i := range 5 {
		c := reserve(fmt.Sprintf("order-%08d", i), "a")
		c.Namespace = "team"
		g.pass(time.Second).must(c)
	}
	g.pass(9 * 24 * time.Hour)
	if at, ok := g.m.NextDue(); !ok || at > g.now {
		t.Fatal("nothing due")
	}
	if res := g.must(sweep(3)); res.Dropped != 3 || res.Remaining != 2 {
		t.Fatalf("%+v", res)
	}
	if res := g.must(sweep(3)); res.Dropped != 2 || res.Remaining != 0 {
		t.Fatalf("%+v", res)
	}
	if _, ok := g.m.NextDue(); ok {
		t.Fatal("uncertain claims are due")
	}
	g.namespace("default", rerunBoth())
	if res := g.must(sweep(30)); res.Dropped != 30 || res.Remaining != 20 {
		t.Fatalf("%+v", res)
	}
	audit(t, g.m)
}

func TestStatsAndList(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := func(key string) uint64 { return g.must(reserve(key, "a")).Record.Token }
	g.must(commit("order-committed", token("order-committed"), "o"))
	g.must(fail("order-failed", token("order-failed"), "o"))
	g.must(release("order-released", token("order-released")))
	g.must(cancel("order-cancelled"))
	g.must(commit("short-expired", func() uint64 {
		c := reserve("short-expired", "a")
		c.TtlUs = Micros(time.Second)
		return g.must(c).Record.Token
	}(), "o"))
	g.must(reserve("order-uncertain", "a"))
	g.pass(time.Minute)
	g.must(reserve("order-pending", "a"))

	want := NamespaceStats{Records: 7, Pending: 1, Uncertain: 1, Committed: 1, Failed: 1, Released: 1, Cancelled: 1, Expired: 1}
	want.OldestUncertain = t0.Add(30 * time.Second)
	check := func() {
		t.Helper()
		st := g.m.Stats(g.now)["default"]
		want.Bytes = st.Bytes
		if st != want {
			t.Fatalf("%+v, want %+v", st, want)
		}
	}
	check()
	g.must(sweep(0)) // drops the bytes of the expired one
	check()

	list := func(o ListOptions) string {
		s := ""
		for range 20 {
			recs, next := g.m.Records("default", o, g.now)
			for _, r := range recs {
				s += r.Key + " "
			}
			if next == "" {
				return s
			}
			s += "| "
			o.After = next
		}
		return "endless"
	}
	for _, c := range []struct {
		o    ListOptions
		want string
	}{
		{ListOptions{Limit: 9}, "order-cancelled order-committed order-failed order-pending order-released order-uncertain short-expired "},
		{ListOptions{Limit: 7}, "order-cancelled order-committed order-failed order-pending order-released order-uncertain short-expired "},
		{ListOptions{Limit: 4}, "order-cancelled order-committed order-failed order-pending | order-released order-uncertain short-expired "},
		{ListOptions{Limit: 4, Prefix: "short"}, "short-expired "},
		{ListOptions{Limit: 4, Prefix: "short", After: "order-failed"}, "short-expired "},
		{ListOptions{Limit: 4, Prefix: "order", After: "short"}, ""},
		{ListOptions{Prefix: "order-c"}, "order-cancelled | order-committed "},
		{ListOptions{Limit: 9, Status: "pending"}, "order-pending "},
		{ListOptions{Limit: 9, Status: "uncertain"}, "order-uncertain "},
		{ListOptions{Limit: 9, Status: "committed"}, "order-committed "},
		{ListOptions{Limit: 9, Status: "failed"}, "order-failed "},
		{ListOptions{Limit: 9, Status: "released"}, "order-released "},
		{ListOptions{Limit: 9, Status: "cancelled"}, "order-cancelled "},
		{ListOptions{Limit: 9, Status: "expired"}, "short-expired "},
	} {
		if got := list(c.o); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
	if recs, next := g.m.Records("nowhere", ListOptions{Limit: 9}, g.now); recs != nil || next != "" {
		t.Error("an unknown namespace is listed")
	}
}

// A filter that matches nothing cannot hold up the machine.
func TestListingIsBounded(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, maxVisited+500)
	recs, next := g.m.Records("default", ListOptions{Status: "failed", Limit: 10}, g.now)
	if len(recs) != 0 || next != fmt.Sprintf("order-%08d", maxVisited-1) {
		t.Fatalf("%d records, next %q", len(recs), next)
	}
	if recs, next = g.m.Records("default", ListOptions{Status: "failed", Limit: 10, After: next}, g.now); len(recs) != 0 || next != "" {
		t.Fatalf("%d records, next %q", len(recs), next)
	}
}

func TestAuditTrail(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	c := release(key1, r.Token)
	c.Actor, c.Reason, c.CorrelationId = "gw-1", "never sent", "corr"
	g.must(c)
	g.must(c) // a repeat changes nothing and is not kept
	r = g.must(reserve(key1, "b")).Record
	g.refused("idempotency_in_flight", resolve(key1, r.Token, fsmpb.Verdict_VERDICT_FAILED))
	g.pass(time.Minute).must(resolve(key1, r.Token, fsmpb.Verdict_VERDICT_NOT_APPLIED))
	g.must(cancel(key1))
	g.must(put("team", "c1", nil))
	g.must(put("team", "c2", rerunBoth()))
	in := reserve(key1, "a")
	in.Namespace = "team"
	g.must(in)
	g.must(drop("team", "d1", true))
	want := []string{
		"release attempt 1", "resolve not_applied", "cancel ", "namespace.create ",
		"namespace.change version 2", "namespace.delete forced, with 1 records",
	}
	got := g.m.Audit(0, 99)
	for i, e := range got {
		if e.Sequence != uint64(i+1) || i < len(want) && e.Action+" "+e.Detail != want[i] {
			t.Errorf("%d: %v", i, e)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d entries", len(got))
	}
	if e := got[0]; e.Actor != "gw-1" || e.Reason != "never sent" || e.CorrelationId != "corr" || e.Key != key1 ||
		e.Namespace != "default" || e.TimeUs != int64(t0) || e.Index != 2 {
		t.Errorf("%v", e)
	}
	if page := g.m.Audit(2, 2); len(page) != 2 || page[0].Sequence != 3 || page[1].Sequence != 4 {
		t.Errorf("%v", page)
	}
	if page := g.m.Audit(6, 2); page != nil {
		t.Errorf("%v", page)
	}
	// The last AuditKept are kept.
	var batch []*Command
	for i := range AuditKept {
		batch = append(batch, cancel(fmt.Sprintf("order-%08d", i+10)))
	}
	g.entry(batch...)
	if all := g.m.Audit(0, 1<<30); len(all) != AuditKept || all[0].Sequence != 7 {
		t.Errorf("%d kept, from %d", len(all), all[0].Sequence)
	}
	audit(t, g.m)
}
