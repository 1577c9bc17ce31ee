package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

type waitAnswer struct {
	d   *fsm.Decision
	err error
}

// parkOn starts a waiting duplicate on a node and returns once it is parked.
func (c *trio) parkOn(n *Node, cmd *fsm.Command, wait time.Duration) <-chan waitAnswer {
	c.t.Helper()
	before := n.fsm.keys.parked.Load()
	ch := make(chan waitAnswer, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait+10*time.Second)
		defer cancel()
		d, err := n.Decide(ctx, []*fsm.Command{cmd}, wait)
		ch <- waitAnswer{d, err}
	}()
	c.eventually("the duplicate is parked", func() error {
		if n.fsm.keys.parked.Load() <= before {
			return errors.New("it is not")
		}
		return nil
	})
	return ch
}

func (c *trio) totalEntries() (sum uint64) {
	for _, n := range c.up() {
		sum += n.entries.Load()
	}
	return sum
}

func TestAParkedDuplicateCostsNoEntryAndGetsTheOutcome(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	first, _ := decide(t, c.nodes[0], reserveCmd("parked-key"))
	c.agree()
	entries := c.totalEntries()
	var parked []<-chan waitAnswer
	for _, n := range c.nodes {
		parked = append(parked, c.parkOn(n, reserveCmd("parked-key"), 30*time.Second))
	}
	if e := c.totalEntries(); e != entries {
		t.Errorf("three parked duplicates cost %d entries", e-entries)
	}
	decide(t, c.nodes[0], commitCmd("parked-key", first.Record.Token))
	for i, ch := range parked {
		a := <-ch
		if a.err != nil || a.d.Results[0].Outcome != fsm.OutcomeReplayed {
			t.Errorf("the one parked on node %d got %+v %v", i+1, a.d, a.err)
		}
	}
	if e := c.totalEntries(); e != entries+1 {
		t.Errorf("%d entries in all, want the commit's alone", e-entries)
	}
}

func TestAReleaseGrantsOneOfTheParked(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	first, _ := decide(t, c.nodes[0], reserveCmd("freed-key"))
	c.agree()
	var parked []<-chan waitAnswer
	for _, n := range c.nodes {
		parked = append(parked, c.parkOn(n, reserveCmd("freed-key"), 2*time.Second))
	}
	decide(t, c.nodes[1], &fsm.Command{Op: fsmpb.Op_OP_RELEASE, Namespace: "default", Key: "freed-key", Token: first.Record.Token})
	granted, inFlight := 0, 0
	for _, ch := range parked {
		a := <-ch
		if a.err != nil {
			t.Fatal(a.err)
		}
		switch r := a.d.Results[0]; {
		case r.Outcome == fsm.OutcomeReserved:
			granted++
		case r.Code == idem.CodeInFlight:
			inFlight++
		default:
			t.Errorf("%v %s", r.Outcome, r.Code)
		}
	}
	if granted != 1 || inFlight != 2 {
		t.Errorf("%d granted and %d in flight, want 1 and 2", granted, inFlight)
	}
}

func TestAParkedDuplicateHearsOfTheLeasesEnd(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	cmd := reserveCmd("lapsing-key")
	cmd.LeaseUs = fsm.Micros(300 * time.Millisecond)
	decide(t, c.nodes[0], cmd)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	d, err := c.nodes[c.follower()].Decide(ctx, []*fsm.Command{reserveCmd("lapsing-key")}, 30*time.Second)
	if err != nil || d.Results[0].Code != idem.CodeUncertain {
		t.Fatalf("%+v %v, want uncertain at the lease's end", d, err)
	}
}

func TestWaitOverIsInFlight(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 1, "", nil)
	decide(t, c.nodes[0], reserveCmd("long-running"))
	d, err := c.nodes[0].Decide(t.Context(), []*fsm.Command{reserveCmd("long-running")}, 50*time.Millisecond)
	if err != nil || d.Results[0].Code != idem.CodeInFlight {
		t.Fatalf("%+v %v, want in flight", d, err)
	}
	// Another request is told at once, however long it would wait.
	other := reserveCmd("long-running")
	other.RequestDigest = "sha256-other"
	d, err = c.nodes[0].Decide(t.Context(), []*fsm.Command{other}, time.Minute)
	if err != nil || d.Results[0].Code != idem.CodeKeyConflict {
		t.Fatalf("%+v %v, want a conflict at once", d, err)
	}
}

// TestDrainAnswersParkedCalls has a duplicate wait on a node that is about to
// stop: it is told at once that the key is in flight, and so is one that comes
// after; all else is served.
func TestDrainAnswersParkedCalls(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	n := c.nodes[c.follower()]
	first, _ := decide(t, n, reserveCmd("drained-key"))
	parked := c.parkOn(n, reserveCmd("drained-key"), time.Hour)
	n.Drain()
	n.Drain() // twice is once
	if a := <-parked; a.err != nil || a.d.Results[0].Code != idem.CodeInFlight {
		t.Errorf("the parked call got %+v, %v", a.d, a.err)
	}
	if d, err := n.Decide(t.Context(), []*fsm.Command{reserveCmd("drained-key")}, time.Hour); err != nil || d.Results[0].Code != idem.CodeInFlight {
		t.Errorf("a later one got %+v, %v", d, err)
	}
	if k := n.Ready()[0]; k.Name != "staying" || k.OK {
		t.Errorf("the first check is %+v", k)
	}
	if r, _ := decide(t, n, commitCmd("drained-key", first.Record.Token)); r.Outcome != fsm.OutcomeCommitted {
		t.Errorf("a commit got %v %s", r.Outcome, r.Code)
	}
}
