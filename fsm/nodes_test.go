package fsm

import (
	"math"
	"testing"
	"time"

	"github.com/onced/onced/fsm/fsmpb"
)

func replays(node string, seq uint64, counts ...*fsmpb.ReplayCount) *Command {
	return &Command{Op: fsmpb.Op_OP_REPLAYS, Replays: &fsmpb.ReplayBatch{NodeId: node, Sequence: seq, Counts: counts}}
}

func TestReplayBatchesCountOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", rerunBoth())
	settled(g, key1, fsmpb.Op_OP_COMMIT)
	r := g.rec(key1)
	count := func(n uint64, at Time) *fsmpb.ReplayCount {
		return &fsmpb.ReplayCount{Namespace: "default", Key: key1, Token: r.Token, Count: n, LastUs: int64(at)}
	}
	check := func(replays uint64, last Time) {
		t.Helper()
		if n := g.rec(key1); n.Replays != replays || n.LastReplayedAt != last || n.Version != r.Version || n.ExpiresAt != r.ExpiresAt {
			t.Fatalf("%+v", n)
		}
		audit(t, g.m)
	}
	g.pass(time.Minute)
	g.must(reserve(key1, "b")) // answered through the log: counted where it was served
	check(0, 0)
	g.must(replays("n1", 5, count(3, t0+7)))
	check(3, t0+7)
	for _, seq := range []uint64{5, 4, 0} { // repeats and late copies
		if res := g.must(replays("n1", seq, count(3, t0+9))); res.Changed {
			t.Errorf("sequence %d is counted again", seq)
		}
	}
	check(3, t0+7)
	g.must(replays("n2", 1, count(1, t0+5))) // another node counts for itself

	check(4, t0+7)
	if g.m.ReplaySequence("n1") != 5 || g.m.ReplaySequence("n2") != 1 || g.m.ReplaySequence("n3") != 0 {
		t.Error("sequences")
	}
	g.must(replays("n1", 6, count(math.MaxUint64, g.now+99), nil,
		&fsmpb.ReplayCount{Namespace: "x", Key: key1, Count: 1}, &fsmpb.ReplayCount{Namespace: "default", Key: "x", Count: 1}))
	check(math.MaxUint64, g.now)
	// A later claim is not counted to.
	g.pass(24 * time.Hour)
	settled(g, key1, fsmpb.Op_OP_COMMIT)
	g.must(replays("n1", 7, count(9, g.now)))
	if n := g.rec(key1); n.Replays != 0 {
		t.Fatalf("%+v", n)
	}
	g.m = restored(t, snapshotOf(t, g.m))
	if res := g.must(replays("n1", 7)); res.Changed || g.m.ReplaySequence("n1") != 7 {
		t.Error("forgotten at a restart")
	}
	g.refused("invalid_request", replays("", 8))
	g.refused("invalid_request", &Command{Op: fsmpb.Op_OP_REPLAYS})
}

func TestNodes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	info := func(id, addr string) *Command {
		return &Command{Op: fsmpb.Op_OP_NODE_INFO, Node: &fsmpb.Node{Id: id, HttpAddress: addr, Version: "1"}}
	}
	g.must(info("n2", "b"))
	g.must(replays("n1", 3))
	v := g.m.View()
	g.must(info("n1", "a"))
	if res := g.must(info("n1", "a")); res.Changed {
		t.Error("nothing changed")
	}
	g.must(info("n1", "c"))
	if n := g.m.Nodes(); len(n) != 2 || n[0].Id != "n1" || n[0].HttpAddress != "c" || n[1].Id != "n2" || g.m.ReplaySequence("n1") != 3 {
		t.Errorf("%v", n)
	}
	if v.nodes[0].node.HttpAddress != "" {
		t.Error("a view changed")
	}
	g.refused("invalid_request", info("", "a"))
	g.refused("invalid_request", &Command{Op: fsmpb.Op_OP_NODE_INFO})
	audit(t, g.m)
}

func TestInit(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	id := func(s string) *Command { return &Command{Op: fsmpb.Op_OP_INIT, ClusterId: s} }
	g.refused("invalid_request", id(""))
	g.must(id("one"))
	g.must(id("one"))
	g.refused("invalid_request", id("two"))
	if g.m.ClusterID() != "one" {
		t.Error(g.m.ClusterID())
	}
}

func TestTicksFindDivergence(t *testing.T) {
	t.Parallel()
	g, h := newRig(t), newRig(t)
	tick := func(g *rig, index, hash uint64) {
		g.must(&Command{Op: fsmpb.Op_OP_TICK, CheckIndex: index, CheckHash: hash})
	}
	both := func(c *Command) { g.must(c); h.must(c) }
	both(reserve(key1, "a"))
	tick(g, 0, 0)
	tick(h, 0, 0)
	i, hash := g.m.LastTick()
	if i != 2 || hash != g.m.StateHash() {
		t.Fatalf("tick %d, %x; state %x", i, hash, g.m.StateHash())
	}
	both(cancel("order-00000002"))
	tick(h, i, hash)
	if _, _, _, ok := h.m.Diverged(); ok {
		t.Fatal("equal replicas diverge")
	}
	tick(h, 1, 99) // there was no tick
	if _, _, _, ok := h.m.Diverged(); ok {
		t.Fatal("diverged at an index that was not recorded")
	}
	tick(h, i, hash+1)
	tick(h, i, hash+2)
	if at, ours, theirs, ok := h.m.Diverged(); !ok || at != i || ours != hash || theirs != hash+1 {
		t.Fatalf("%d %x %x %v", at, ours, theirs, ok)
	}
	// A restored machine knows the last tick.
	r := restored(t, snapshotOf(t, g.m))
	r.Apply(9, &Entry{Commands: []*Command{{Op: fsmpb.Op_OP_TICK, CheckIndex: i, CheckHash: 1}}})
	if _, _, _, ok := r.Diverged(); !ok {
		t.Fatal("not found after a restore")
	}
	// The oldest are forgotten, no others.
	for range ticksKept {
		tick(g, 0, 0)
	}
	tick(g, i, 1)
	if _, _, _, ok := g.m.Diverged(); ok || len(g.m.ticks) != ticksKept {
		t.Fatal("more ticks are kept than said")
	}
	tick(g, g.m.ticks[0].index, 1)
	if _, _, _, ok := g.m.Diverged(); !ok {
		t.Fatal("fewer ticks are kept than said")
	}
}
