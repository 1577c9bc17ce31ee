package cluster

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onced/onced/fsm"
)

// calmSim opens three nodes in a synctest bubble, on a network without faults,
// gives them time to agree, and closes them at the end of f.
func calmSim(t *testing.T, f func(t *testing.T, s *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sim{
			t: t, rng: rand.New(rand.NewSource(1)), net: newSimNet(1),
			hashes: map[uint64]uint64{}, acked: map[string]string{}, granted: map[string]map[uint64]bool{},
			freed: map[string]int{}, faults: map[string]int{},
		}
		s.start()
		defer s.end()
		time.Sleep(5 * time.Second)
		f(t, s)
	})
}

// leader gives the node that leads, and the others.
func (s *sim) leader() (leader *simNode, others []*simNode) {
	for _, x := range s.nodes {
		if x.node.leads() == nil {
			leader = x
		} else {
			others = append(others, x)
		}
	}
	if leader == nil {
		s.t.Fatal("nobody leads")
	}
	return leader, others
}

// TestHandOverGap stops the leader in good order, in virtual time, while calls
// come in through the other two: none fails, and none takes as long as it would
// take to notice that a leader is gone.
func TestHandOverGap(t *testing.T) {
	t.Parallel()
	calmSim(t, func(t *testing.T, s *sim) {
		var worst time.Duration
		var mu sync.Mutex // guards worst
		for round := range 5 {
			leader, others := s.leader()
			ctx, cancel := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			for i := range 8 {
				clients.Add(1)
				go func() {
					defer clients.Done()
					for k := 0; ctx.Err() == nil; k++ {
						began := time.Now()
						call, done := context.WithTimeout(context.Background(), 5*time.Second)
						d, err := others[i%2].node.Decide(call, []*fsm.Command{reserveCmd(fmt.Sprintf("gap-%d-%d-%06d", round, i, k))}, 0)
						done()
						if err != nil || d.Results[0].Outcome != fsm.OutcomeReserved {
							t.Errorf("a call during the hand-over: %+v, %v", d, err)
						}
						mu.Lock()
						worst = max(worst, time.Since(began))
						mu.Unlock()
					}
				}()
			}
			time.Sleep(time.Second)
			s.down(leader, true)
			time.Sleep(2 * time.Second)
			cancel()
			clients.Wait()
			s.open(leader)
			time.Sleep(5 * time.Second)
		}
		t.Logf("the slowest call over five hand-overs took %v", worst)
		if notice := s.nodes[0].node.raftConfig().HeartbeatTimeout; worst >= notice {
			t.Errorf("the slowest call took %v, as long as it takes to notice a lost leader (%v)", worst, notice)
		}
	})
}

// TestCallsWaitForANewLeader has a call forwarded to a leader that may not
// decide yet: it is answered once that may, and is not sent again.
func TestCallsWaitForANewLeader(t *testing.T) {
	t.Parallel()
	calmSim(t, func(t *testing.T, s *sim) {
		leader, others := s.leader()
		n, f := leader.node, others[0].node
		sent := f.forwarded.Load()
		n.ready.Store(false)
		done := make(chan fsm.Result)
		go func() {
			r, _ := decide(t, f, reserveCmd("early-key"))
			done <- r
		}()
		time.Sleep(time.Second)
		n.ready.Store(true)
		n.leader.nudge()
		if r := <-done; r.Outcome != fsm.OutcomeReserved {
			t.Errorf("%v %s", r.Outcome, r.Code)
		}
		if m := f.forwarded.Load() - sent; m != 1 {
			t.Errorf("the call was sent %d times", m)
		}
	})
}
