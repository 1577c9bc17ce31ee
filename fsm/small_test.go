package fsm

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

func TestTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 1_999, time.FixedZone("x", 3600))
	u := TimeOf(at)
	if u != Time(at.UnixMicro()) || u.Std() != at.Truncate(time.Microsecond).UTC() {
		t.Error(u, u.Std())
	}
	if u.Add(1999*time.Nanosecond) != u+1 || (u+5).Sub(u) != 5*time.Microsecond || Duration(Micros(time.Hour)) != time.Hour {
		t.Error("arithmetic")
	}
}

// Commands that carry no token carry the deadline of their call.
func TestTokenless(t *testing.T) {
	t.Parallel()
	for name, e := range oneOfEach() {
		c := e.Commands[0]
		want := c.Op == fsmpb.Op_OP_RESERVE || c.Op == fsmpb.Op_OP_CANCEL || strings.HasPrefix(name, "namespace")
		if Tokenless(c) != want {
			t.Error(name)
		}
	}
}

func TestRefusalsOfRareForms(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	g.pass(time.Minute).refused("invalid_request", resolve(key1, r.Token, 0))
	g.refused("invalid_request", put("new", "c", &fsmpb.PolicyPatch{TtlUs: proto.Int64(1)}))
	g.must(put("team", "c1", nil))
	c := drop("team", "d", false)
	c.ExpectedVersion = 9
	g.refused("idempotency_stale_version", c)
	if !cmp.Equal(g.rec(key1), r) {
		t.Error("touched")
	}
}

// Two namespaces that were deleted by force are emptied in the same order by
// every replica, whichever was deleted first.
func TestDrainingInNameOrder(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for _, ns := range []string{"zeta", "alpha"} {
		g.must(put(ns, "c", nil))
		for _, k := range []string{key1, "order-00000002"} {
			c := reserve(k, "a")
			c.Namespace = ns
			g.must(c)
		}
		g.must(drop(ns, "d", true))
	}
	twin := &rig{tb: t, m: restored(t, snapshotOf(t, g.m)), now: g.now}
	for i := range 4 {
		a, b := g.must(sweep(1)), twin.must(sweep(1))
		if a.Remaining != 3-i || b.Remaining != 3-i || g.m.StateHash() != twin.m.StateHash() {
			t.Fatalf("sweep %d: %+v, %+v", i, a, b)
		}
	}
	if _, ok := g.m.NextDue(); ok {
		t.Error("something is left")
	}
}

// A record that no reader would take is not written.
func TestSnapshotFrameLimit(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	r := g.must(reserve(key1, "a")).Record
	c := commit(key1, r.Token, "o1")
	c.Redacted = []string{strings.Repeat("x", frameMax)}
	g.m.Apply(9, &Entry{TimeUs: int64(g.now), Commands: []*Command{c}})
	v := g.m.View()
	if _, err := v.WriteTo(io.Discard); err == nil {
		t.Error("written")
	}
	if v.StateHash() != g.m.StateHash() || v.Index() != 9 {
		t.Error("the view's own figures")
	}
}
