package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// The faults of wall clocks, which builds with the tag chaos take from a file.
var clockFaults = []*Fault{
	{Name: "clockahead", About: "one node's wall clock a day ahead, and back", Needs: clocks, Inject: clockBy(86400)},
	{Name: "clockbehind", About: "one node's wall clock a day behind, and back", Needs: clocks, Inject: clockBy(-86400)},
	{Name: "clockrestart", About: "one node killed, started with its wall clock a day off, and put right", Needs: clocks, Inject: clockRestart},
}

func (n *Node) setClock(seconds int64) error {
	return os.WriteFile(n.Clock, []byte(strconv.FormatInt(seconds, 10)), 0o600)
}

// offsetOf gives how far another node sees the clock of n ahead of its own.
func (r *rig) offsetOf(ctx context.Context, n *Node) int64 {
	for _, other := range r.nodes.All {
		if other == n || !other.running() {
			continue
		}
		s, err := r.nodes.status(ctx, other)
		if err != nil {
			continue
		}
		for _, x := range s.Nodes {
			if x.ID == n.ID && x.ClockOffsetMs != 0 {
				return x.ClockOffsetMs
			}
		}
	}
	return 0
}

func (r *rig) clockFault(ctx context.Context, n *Node, leads bool, seconds int64, rng *rand.Rand) *injured {
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 2*time.Second, 5*time.Second),
		heal: func(context.Context) (string, error) {
			seen := r.offsetOf(ctx, n)
			if err := n.setClock(0); err != nil {
				return "", err
			}
			if off := time.Duration(seen) * time.Millisecond; off.Abs() < time.Duration(seconds).Abs()*time.Second/2 {
				return "", nil
			}
			return fmt.Sprintf("the others saw its clock %d ms off", seen), nil
		},
	}
}

func clockBy(seconds int64) func(context.Context, *rig, *rand.Rand) (*injured, error) {
	return func(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
		n, leads := r.victim(ctx, rng)
		if err := n.setClock(seconds); err != nil {
			return nil, err
		}
		return r.clockFault(ctx, n, leads, seconds, rng), nil
	}
}

func clockRestart(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	struck := r.history.now()
	n.kill()
	seconds := []int64{86400, -86400}[rng.IntN(2)]
	if err := n.setClock(seconds); err != nil {
		return nil, err
	}
	if err := r.nodes.start(n); err != nil {
		return nil, err
	}
	if err := r.nodes.awaitReady(ctx, recoverTime, n); err != nil {
		return nil, err
	}
	hurt := r.clockFault(ctx, n, leads, seconds, rng)
	hurt.struck = struck
	return hurt, nil
}
