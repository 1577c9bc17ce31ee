package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// The faults that need nodes in network namespaces.
var networkFaults = []*Fault{
	{Name: "loss", About: "20 to 50 % of all packets between nodes dropped", Root: true, Needs: namespaces, Inject: loss},
	{Name: "linkdown", About: "one node's network interface down, clients' way too", Root: true, Needs: namespaces, Inject: linkDown},
	{Name: "linkflap", About: "one node's network interface down and up ten times", Root: true, Needs: namespaces, Inject: linkFlap},
}

func loss(_ context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	f, ok := r.fabric.(*netns)
	if !ok {
		return nil, errNotHere
	}
	percent := 20 + rng.IntN(31)
	hurt, err := r.linkFault("all", true, between(rng, 3*time.Second, 5*time.Second), func() error { return f.Lose(percent) })
	if err != nil {
		return nil, err
	}
	heal := hurt.heal
	hurt.heal = func(ctx context.Context) (string, error) {
		proof, err := heal(ctx)
		if proof != "" {
			proof += fmt.Sprintf(" of %d %%", percent)
		}
		return proof, err
	}
	return hurt, nil
}

// unreachable tells that a node does not answer a client right now.
func (r *rig) unreachable(n *Node) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := r.nodes.get(ctx, n, "/healthz")
	return err != nil
}

func linkDown(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	f, ok := r.fabric.(*netns)
	if !ok {
		return nil, errNotHere
	}
	n, leads := r.victim(ctx, rng)
	if err := f.Link(r.place(n), "down"); err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, time.Second, 4*time.Second),
		heal: func(context.Context) (string, error) {
			proof := ""
			if r.unreachable(n) {
				proof = "a client got no answer from it"
			}
			return proof, f.Link(r.place(n), "up")
		},
	}, nil
}

func linkFlap(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	f, ok := r.fabric.(*netns)
	if !ok {
		return nil, errNotHere
	}
	n, leads := r.victim(ctx, rng)
	for range 10 {
		for _, state := range []string{"down", "up"} {
			if err := f.Link(r.place(n), state); err != nil {
				return nil, err
			}
			_ = pause(ctx, between(rng, 50*time.Millisecond, 300*time.Millisecond))
		}
	}
	return &injured{
		target: n.ID, leader: leads,
		heal: func(context.Context) (string, error) { return "10 times down and up", nil },
	}, nil
}
