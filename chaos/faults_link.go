package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// The faults of the links between nodes. The first two work on both fabrics.
var linkFaults = []*Fault{
	{Name: "isolate", About: "one node cut from the others, both ways; clients still reach it", Inject: isolateNode},
	{Name: "oneway", About: "nothing gets from one node to another; the other way works", Inject: oneWay},
	{Name: "split", About: "every node cut from every other", Fails: true, Inject: split},
	{Name: "flap", About: "one node cut and healed every few hundred milliseconds", Inject: flap},
	{Name: "delay", About: "40 to 150 ms more on every link, each way", Needs: byProxies, Inject: delay},
	{Name: "reset", About: "all connections of one node reset, ten times", Needs: byProxies, Inject: resets},
}

// stoppedSince gives the proof of a link fault: what did not get through since
// the fabric had stopped before.
func (r *rig) stoppedSince(before int64) (string, error) {
	now, unit, err := r.fabric.Stopped()
	if err != nil || now == before {
		return "", err
	}
	return fmt.Sprintf("%d %s", now-before, unit), nil
}

// linkFault makes a disturbance of the fabric that its Heal ends.
func (r *rig) linkFault(target string, leader bool, hold time.Duration, disturb func() error) (*injured, error) {
	before, _, err := r.fabric.Stopped()
	if err != nil {
		return nil, err
	}
	if err := disturb(); err != nil {
		return nil, err
	}
	return &injured{
		target: target, leader: leader, hold: hold,
		heal: func(context.Context) (string, error) {
			proof, err := r.stoppedSince(before)
			if healed := r.fabric.Heal(); healed != nil {
				return proof, healed
			}
			return proof, err
		},
	}, nil
}

func isolateNode(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	return r.linkFault(n.ID, leads, between(rng, time.Second, 4*time.Second), func() error {
		return isolate(r.fabric, len(r.nodes.All), r.place(n))
	})
}

func oneWay(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	from := r.place(n)
	to := (from + 1 + rng.IntN(len(r.nodes.All)-1)) % len(r.nodes.All)
	return r.linkFault(n.ID+"->"+r.nodes.All[to].ID, leads, between(rng, time.Second, 4*time.Second), func() error {
		return r.fabric.Cut(from, to)
	})
}

func split(_ context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	return r.linkFault("all", true, between(rng, time.Second, 3*time.Second), func() error {
		for i := range r.nodes.All {
			if err := isolate(r.fabric, len(r.nodes.All), i); err != nil {
				return err
			}
		}
		return nil
	})
}

func flap(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	place, before := r.place(n), int64(0)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error)
	var err error
	if before, _, err = r.fabric.Stopped(); err != nil {
		cancel()
		return nil, err
	}
	up, down := between(rng, 50*time.Millisecond, 300*time.Millisecond), between(rng, 100*time.Millisecond, 500*time.Millisecond)
	go func() {
		for work.Err() == nil {
			if err := isolate(r.fabric, len(r.nodes.All), place); err != nil {
				done <- err
				return
			}
			_ = pause(work, down)
			if err := r.fabric.Heal(); err != nil {
				done <- err
				return
			}
			_ = pause(work, up)
		}
		done <- nil
	}()
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 2*time.Second, 4*time.Second),
		heal: func(context.Context) (string, error) {
			cancel()
			if err := <-done; err != nil {
				return "", err
			}
			return r.stoppedSince(before)
		},
	}, nil
}

func delay(_ context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	p, ok := r.fabric.(*proxies)
	if !ok {
		return nil, errNotHere
	}
	d := between(rng, 40*time.Millisecond, 150*time.Millisecond)
	return r.linkFault("all", true, between(rng, 2*time.Second, 4*time.Second), func() error {
		p.Slow(d)
		return nil
	})
}

func resets(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	p, ok := r.fabric.(*proxies)
	if !ok {
		return nil, errNotHere
	}
	n, leads := r.victim(ctx, rng)
	total := 0
	for range 10 {
		total += p.Reset(r.place(n))
		if err := pause(ctx, between(rng, 20*time.Millisecond, 150*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return &injured{
		target: n.ID, leader: leads,
		heal: func(context.Context) (string, error) {
			if total == 0 {
				return "", nil
			}
			return fmt.Sprintf("%d connections reset", total), nil
		},
	}, nil
}

// recoverTime is how long nodes may take to be ready after a fault.
const recoverTime = 30 * time.Second
