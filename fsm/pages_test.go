package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// churn settles, releases and sweeps keys in small pages, so that pages come,
// go and are packed up all the time.
func churn(g *rig, rnd *rand.Rand, steps int) {
	for range steps {
		g.pass(time.Duration(rnd.Int64N(int64(20 * time.Minute))))
		key := fmt.Sprintf("order-%08d", rnd.IntN(400))
		res := g.do(reserve(key, "a"))
		if res.Code == "" && rnd.IntN(20) > 0 { // else it stays, uncertain
			c := commit(key, res.Record.Token, "o1")
			c.Response = bytes.Repeat([]byte{'x'}, rnd.IntN(200))
			g.do(c)
		}
		if rnd.IntN(30) == 0 {
			g.must(sweep(20))
		}
	}
}

// A view is what it was, however often the pages under it have been packed up,
// let go, and their numbers given out again; also while it is being read.
func TestPagesOfAViewStay(t *testing.T) {
	t.Parallel()
	g := newRig(t).crowd()
	rnd := rand.New(rand.NewPCG(1, 2))
	var views []*View
	var wants [][]byte
	var readers sync.WaitGroup
	for range 40 {
		churn(g, rnd, 60)
		v, want := g.m.View(), snapshotOf(t, g.m)
		views, wants = append(views, v), append(wants, want)
		readers.Go(func() {
			var b bytes.Buffer
			if _, err := v.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), want) {
				t.Error("a view changed while it was read", err)
			}
		})
	}
	readers.Wait()
	for i, v := range views {
		var b bytes.Buffer
		if _, err := v.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), wants[i]) {
			t.Fatalf("view %d has changed: %v", i, err)
		}
	}
	audit(t, g.m)
}

// Memory follows what is live: stragglers do not hold the pages they were
// written to, and what is empty is let go.
func TestPagesArePackedUp(t *testing.T) {
	t.Parallel()
	g := newRig(t).crowd()
	s := g.m.store
	churn(g, rand.New(rand.NewPCG(3, 4)), 2000)
	for i := range 1000 {
		key := fmt.Sprintf("straggler-%08d", i)
		r := g.must(reserve(key, "a")).Record
		if i%10 > 0 {
			g.must(commit(key, r.Token, "o1"))
		}
	}
	audit(t, g.m)
	size := 0
	for _, page := range s.list {
		size += len(page)
	}
	if live := s.used - s.dead; size > 2*live+s.slack+8*s.size {
		t.Errorf("%d bytes in pages for %d", size, live)
	}
	// Another machine with the same records lays them out otherwise.
	if restored(t, snapshotOf(t, g.m)).StateHash() != g.m.StateHash() {
		t.Error("state hash")
	}

	g = newRig(t).crowd()
	fill(g, 3000)
	g.pass(10 * 24 * time.Hour).must(sweep(MaxSweep))
	held := slices.DeleteFunc(slices.Clone(g.m.store.list), func(b []byte) bool { return b == nil })
	if len(held) > int(lifetimes) {
		t.Errorf("%d pages are held by no record", len(held))
	}
	audit(t, g.m)
}

// Readers look up at the same time, also keys that share a probe.
func TestReadersShareProbes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, 200)
	var readers sync.WaitGroup
	for reader := range 4 {
		readers.Go(func() {
			for i := range 2000 {
				key := fmt.Sprintf("order-%08d", (i*7+reader)%200)
				if r, ok := g.m.Record("default", key); !ok || r.Key != key {
					t.Errorf("%s: found %v", key, r)
					return
				}
				if recs, _ := g.m.Records("default", ListOptions{Prefix: key, Limit: 2}, g.now); len(recs) != 1 || recs[0].Key != key {
					t.Errorf("%s: listed %v", key, recs)
					return
				}
			}
		})
	}
	readers.Wait()
}
