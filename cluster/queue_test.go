package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/onced/onced/fsm"
)

func proposalOf(namespace string, commands int) *proposal {
	var cmds []*fsm.Command
	for range commands {
		cmds = append(cmds, &fsm.Command{Namespace: namespace})
	}
	return newProposal(context.Background(), cmds)
}

// TestAFloodDoesNotStarveTheOthers fills the queue from one namespace: another
// one is still let in, and is next but one.
func TestAFloodDoesNotStarveTheOthers(t *testing.T) {
	t.Parallel()
	q := newFairQueue(1000)
	for i := range 1000 {
		if !q.push(proposalOf("flood", 1)) {
			t.Fatalf("refused at %d", i)
		}
	}
	if q.push(proposalOf("flood", 1)) {
		t.Error("the flood may go over the bound")
	}
	for range 10 {
		if !q.push(proposalOf("calm", 1)) {
			t.Fatal("the other namespace is kept out")
		}
	}
	// Small batches, so that a turn goes on where the last batch ended.
	var got []string
	for range 3 {
		for _, p := range q.take(nil, 7, maxEntryBytes) {
			got = append(got, p.namespace())
		}
	}
	for i, name := range got {
		want := []string{"flood", "calm"}[i%2]
		if i == 20 {
			want = "flood" // nobody else is waiting
		}
		if name != want {
			t.Fatalf("turn %d went to %s", i, name)
		}
	}
	if w := q.waiting(); len(got) != 21 || w != 989 {
		t.Errorf("%d taken, %d wait, want 21 and 989", len(got), w)
	}
}

// TestQueueNeverHoldsTwiceItsBound pushes from ever more namespaces.
func TestQueueNeverHoldsTwiceItsBound(t *testing.T) {
	t.Parallel()
	q := newFairQueue(100)
	for i := range 1000 {
		q.push(proposalOf(fmt.Sprint("ns", i%37), 1+i%50))
		if w := q.waiting(); w > 200 {
			t.Fatalf("%d commands wait", w)
		}
	}
	sum := 0
	for batch := q.take(nil, 60, maxEntryBytes); len(batch) > 0; batch = q.take(nil, 60, maxEntryBytes) {
		for _, p := range batch {
			sum += p.weight()
		}
	}
	if sum == 0 || q.waiting() != 0 || len(q.lanes) != 0 || len(q.turn) != 0 {
		t.Errorf("took %d, %d left in %d lanes", sum, q.waiting(), len(q.lanes))
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		lists    []int // commands of each proposal; 0: a reader
		bytes    int   // of each
		most     int
		mostByte int
		want     []int // proposals in each batch
	}{
		{"all fit", []int{1, 0, 3}, 10, 4, 100, []int{3}},
		{"one more command", []int{1, 3, 1}, 10, 4, 100, []int{2, 1}},
		{"a list is not split", []int{3, 3, 3}, 10, 5, 100, []int{1, 1, 1}},
		{"one larger than a batch goes alone", []int{9, 1}, 10, 4, 100, []int{1, 1}},
		{"bytes", []int{1, 1, 1}, 60, 4, 120, []int{2, 1}},
		{"one of more bytes than a batch", []int{1, 1}, 200, 4, 100, []int{1, 1}},
	} {
		q := newFairQueue(1000)
		for i, n := range tt.lists {
			p := proposalOf("one", n)
			p.bytes = tt.bytes
			if n == 1 && i > 0 {
				p.cmds[0].Namespace = "other"
			}
			q.push(p)
		}
		var got []int
		for batch := q.take(nil, tt.most, tt.mostByte); len(batch) > 0; batch = q.take(nil, tt.most, tt.mostByte) {
			got = append(got, len(batch))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: batches of %v proposals, want %v", tt.name, got, tt.want)
		}
	}
}

func reserveOf(ctx context.Context, key string) *proposal {
	return newProposal(ctx, []*fsm.Command{reserveCmd(key)})
}

// TestAStormOnOneKeyTakesFewPlaces has 200 reserves of one key wait, and then
// others of the same namespace: these are all in the next batch, the commit of
// the storm's key too, and the storm goes on in its order.
func TestAStormOnOneKeyTakesFewPlaces(t *testing.T) {
	t.Parallel()
	q := newFairQueue(maxWaiting)
	ctx := context.Background()
	order := map[*proposal]int{}
	for i := range 200 {
		p := reserveOf(ctx, "storm-key")
		order[p] = i
		q.push(p)
	}
	for i := range 30 {
		q.push(reserveOf(ctx, fmt.Sprintf("calm-key-%d", i)))
	}
	q.push(newProposal(ctx, []*fsm.Command{commitCmd("storm-key", 1)}))
	next := 0
	for n := 0; q.waiting() > 0; n++ {
		batch := q.take(nil, maxEntryCommands, maxEntryBytes)
		storm := 0
		for _, p := range batch {
			if at, ok := order[p]; ok {
				if at != next {
					t.Fatalf("batch %d: reserve %d is taken before %d", n, at, next)
				}
				next++
				storm++
			}
		}
		// The storm is alone from the second batch on, and known to be from the third.
		if most := []int{maxSameKey, maxSameKey, maxSameAlone}[min(n, 2)]; storm > most {
			t.Errorf("batch %d has %d reserves of one key, want at most %d", n, storm, most)
		}
		if n == 0 && len(batch)-storm != 31 {
			t.Errorf("only %d of 31 others are in the first batch", len(batch)-storm)
		}
	}
	if next != 200 || len(q.lanes) != 0 {
		t.Errorf("%d of 200 were taken, %d lanes are left", next, len(q.lanes))
	}
}

// TestAStormOnOneKeyDoesNotFillTheQueue goes on until it is refused: other keys
// of the namespace still have room. Callers of the storm that leave make room.
func TestAStormOnOneKeyDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	q := newFairQueue(1000)
	var storm []*proposal
	for {
		p := reserveOf(context.Background(), "storm-key")
		if !q.push(p) {
			break
		}
		storm = append(storm, p)
	}
	if len(storm) > 1000/sameKeyShare+maxSameKey {
		t.Errorf("one key may fill %d of 1000 places", len(storm))
	}
	for i := range 500 {
		if !q.push(reserveOf(context.Background(), fmt.Sprintf("calm-key-%d", i))) {
			t.Fatalf("another key is refused, at %d", i)
		}
	}
	for _, p := range storm {
		p.state.Store(proposalGivenUp)
	}
	first := q.take(nil, maxEntryCommands, maxEntryBytes)
	second := q.take(nil, maxEntryCommands, maxEntryBytes)
	if len(first) != 500 || len(second) != 0 || q.waiting() != 0 || len(q.lanes) != 0 {
		t.Errorf("%d and %d taken, %d still wait in %d lanes; want 500, and those who left gone", len(first), len(second), q.waiting(), len(q.lanes))
	}
}

func TestQueueWakesItsTakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairQueue(10)
		got := make(chan int, 2)
		for range 2 {
			go func() { got <- len(q.wait(t.Context(), nil, 1, maxEntryBytes)) }()
		}
		synctest.Wait()
		q.push(proposalOf("a", 1))
		q.push(proposalOf("b", 1))
		if first, second := <-got, <-got; first != 1 || second != 1 {
			t.Error("a taker got nothing")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if len(q.wait(ctx, nil, 1, maxEntryBytes)) != 0 {
			t.Error("something from an empty queue")
		}
	})
}
