package fsm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/onced/onced/fsm/fsmpb"
)

// An index holds what a map does, also when hashes collide: here they have few
// values, so that long runs are pushed on and moved up again.
func TestIndexIsAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		x := newIndex()
		want := map[ref]uint64{}
		var refs []ref
		for next := ref(0); next < 4000; {
			if len(refs) > 0 && rnd.IntN(5) < 2 {
				i := rnd.IntN(len(refs))
				r := refs[i]
				x.remove(want[r], r)
				delete(want, r)
				refs[i] = refs[len(refs)-1]
				refs = refs[:len(refs)-1]
				if _, ok := x.find(0, func(at ref) bool { return at == r }); ok {
					t.Fatalf("%d is still there", r)
				}
				continue
			}
			h := uint64(rnd.IntN(3))<<56 | uint64(rnd.IntN(40))
			x.add(h, next)
			want[next] = h
			refs = append(refs, next)
			next++
			if next%200 == 0 {
				for r, h := range want {
					if got, ok := x.find(h, func(at ref) bool { return at == r }); !ok || got != r {
						t.Fatalf("seed %d: %d is not found", seed, r)
					}
				}
			}
		}
	}
}

// A replay that is counted after a view was taken is not in the view.
func TestAViewHasNoLaterReplays(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, 3)
	r, _ := g.m.Record("default", "order-00000001")
	count := func() {
		g.must(replays("n1", g.m.ReplaySequence("n1")+1, &fsmpb.ReplayCount{
			Namespace: r.Namespace, Key: r.Key, Token: r.Token, Count: 2, LastUs: int64(g.now),
		}))
	}
	count()
	v, want := g.m.View(), snapshotOf(t, g.m)
	count()
	var got bytes.Buffer
	if _, err := v.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Fatal("the view has changed")
	}
	if r, _ := g.m.Record("default", r.Key); r.Replays != 4 {
		t.Fatalf("%d replays, want 4", r.Replays)
	}
	audit(t, g.m)
}
