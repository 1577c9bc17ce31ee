package cluster

import (
	"context"
	"fmt"
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
	for i := range 20 {
		want := []string{"flood", "calm"}[i%2]
		if got := q.pop().namespace(); got != want {
			t.Fatalf("turn %d went to %s", i, got)
		}
	}
	if got := q.pop().namespace(); got != "flood" {
		t.Errorf("with nobody else waiting the turn went to %s", got)
	}
	if w := q.waiting(); w != 989 {
		t.Errorf("%d wait, want 989", w)
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
	for p := q.pop(); p != nil; p = q.pop() {
		sum += p.weight()
	}
	if sum == 0 || q.waiting() != 0 || len(q.lanes) != 0 {
		t.Errorf("popped %d, %d left in %d lanes", sum, q.waiting(), len(q.lanes))
	}
}

func TestQueueWakesItsTakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairQueue(10)
		got := make(chan *proposal, 2)
		for range 2 {
			go func() { got <- q.wait(t.Context()) }()
		}
		synctest.Wait()
		q.push(proposalOf("a", 1))
		q.push(proposalOf("b", 1))
		if first, second := <-got, <-got; first == nil || second == nil {
			t.Error("a taker got nothing")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if q.wait(ctx) != nil {
			t.Error("something from an empty queue")
		}
	})
}
