package main

import (
	"context"
	"fmt"
	"time"
)

// smallSize is what larger sizes are compared with.
const smallSize = 10_000

// grown is a cluster of three that holds many records.
type grown struct {
	size  int
	c     *cluster
	empty []float64 // live heap of each node before
	idle  time.Time // since when nothing is asked of it
}

// growth measures W1 over clusters of different sizes, in turn: the machine is
// slower in one minute than in another. The small one is a new one each time, as
// a round would make it several times as large.
func (r *runner) growth(ctx context.Context) error {
	for _, size := range r.records {
		r.say("growth: three nodes, %s records", sized(size))
		c, err := r.newCluster(ctx, 3, size)
		if err != nil {
			return err
		}
		g := &grown{size: size, c: c}
		if g.empty, err = heaps(ctx, c); err != nil {
			return err
		}
		if err := r.fill(ctx, c, "default", size); err != nil {
			return err
		}
		r.grown = append(r.grown, g)
	}
	rates, tails := map[int][]float64{}, map[int][]float64{}
	measure := func(size int, c *cluster) error {
		res, err := r.w1(ctx, c)
		if err != nil {
			return err
		}
		rates[size] = append(rates[size], res.OpsPerSecond)
		tails[size] = append(tails[size], res.LatencyMs.P99)
		r.say("growth: W1 over %s records: %.0f a second, p99 %.1f ms", sized(size), res.OpsPerSecond, res.LatencyMs.P99)
		return nil
	}
	for range r.rounds {
		small, err := r.newCluster(ctx, 3, smallSize)
		if err != nil {
			return err
		}
		if err := r.fill(ctx, small, "default", smallSize); err != nil {
			return err
		}
		if err := measure(smallSize, small); err != nil {
			return err
		}
		if err := r.drop(small); err != nil {
			return err
		}
		for _, g := range r.grown {
			if err := measure(g.size, g.c); err != nil {
				return err
			}
			g.idle = time.Now()
		}
	}
	rate, tail := median(rates[smallSize]), median(tails[smallSize])
	r.table.add("W1 over 10k records", rate, perSecond, "three nodes, 64 clients at the leader; the sizes in turn")
	r.table.add("p99 of it", tail, milliseconds, "")
	for _, g := range r.grown {
		if g.size <= smallSize {
			continue
		}
		now, nowTail := median(rates[g.size]), median(tails[g.size])
		r.table.floor("G24", fmt.Sprintf("W1 over %s against 10k", sized(g.size)), now/rate, times, 0.9, 1, number(now, perSecond))
		r.table.target("G24", fmt.Sprintf("p99 over %s against 10k", sized(g.size)), nowTail/tail, times, 1.2, 1, number(nowTail, milliseconds))
	}
	return nil
}

// collectEvery is how long the Go runtime leaves an idle heap uncollected.
const collectEvery = 2 * time.Minute

// sweepTime is how long an idle node takes, at the most, to free what a
// collection has found dead.
const sweepTime = 3 * time.Second

// heaps gives the live heap of each node.
func heaps(ctx context.Context, c *cluster) ([]float64, error) {
	live := make([]float64, len(c.nodes))
	for i, n := range c.nodes {
		m, err := scrape(ctx, n.url)
		if err != nil {
			return nil, err
		}
		live[i] = m.liveHeap()
	}
	return live, nil
}

// collected waits until each node has collected its garbage after the moment
// since when it is idle: a collection under load counts as alive what was made
// meanwhile.
func collected(ctx context.Context, c *cluster, idle time.Time) error {
	for _, n := range c.nodes {
		for {
			m, err := scrape(ctx, n.url)
			if err != nil {
				return err
			}
			if m.collected().After(idle) {
				break
			}
			if time.Since(idle) > 2*collectEvery {
				return errNotCollected
			}
			if err := pause(ctx, time.Second); err != nil { // not less: being asked makes garbage
				return err
			}
		}
	}
	return pause(ctx, sweepTime)
}

// grownHeaps reads what a record costs.
func (r *runner) grownHeaps(ctx context.Context) error {
	for _, g := range r.grown {
		r.say("growth: heap at %s records", sized(g.size))
		each, err := r.heapEach(ctx, g.c, g.empty, g.idle)
		if err != nil {
			return err
		}
		r.table.target("G16", fmt.Sprintf("live heap a record at %s", sized(g.size)), median(each), bytesEach, 300, 180,
			fmt.Sprintf("of a node after a collection, less an empty node's; %s to %s on the three: a leader keeps more of the last entries",
				number(quantile(each, 0), bytesEach), number(quantile(each, 1), bytesEach)))
	}
	return nil
}

// heapEach is the live heap a record of each node, less what was there before
// the first.
func (r *runner) heapEach(ctx context.Context, c *cluster, empty []float64, idle time.Time) ([]float64, error) {
	if r.idle {
		if err := collected(ctx, c, idle); err != nil {
			return nil, err
		}
	}
	each, err := heaps(ctx, c)
	if err != nil {
		return nil, err
	}
	for i, n := range c.nodes {
		m, err := scrape(ctx, n.url)
		if err != nil {
			return nil, err
		}
		each[i] = (each[i] - empty[i]) / max(1, m.sum("onced_records"))
	}
	return each, nil
}

// grownRestarts measures, size by size, a restart on the log alone, snapshots,
// and a restart on one, and ends the clusters.
func (r *runner) grownRestarts(ctx context.Context) error {
	for _, g := range r.grown {
		_, others, err := g.c.leader(ctx)
		if err != nil {
			return err
		}
		r.say("growth: restart at %s, log alone", sized(g.size))
		took, err := restart(ctx, g.c, others[0])
		if err != nil {
			return err
		}
		r.table.add(fmt.Sprintf("restart at %s, kill -9 to ready, no snapshot", sized(g.size)), took.Seconds(), seconds, "the whole log is read and applied; one time")
		if err := r.snapshots(ctx, g); err != nil {
			return err
		}
		if _, others, err = g.c.leader(ctx); err != nil {
			return err
		}
		var all []float64
		for range r.restarts {
			took, err := restart(ctx, g.c, others[0])
			if err != nil {
				return err
			}
			r.say("growth: restart at %s, with a snapshot: %.2f s", sized(g.size), took.Seconds())
			all = append(all, took.Seconds())
		}
		what := fmt.Sprintf("restart at %s, kill -9 to ready, from a snapshot", sized(g.size))
		if g.size <= 1_000_000 {
			r.table.target("G19", what, median(all), seconds, 2, 0.5, "with what the log holds behind it; the target is for 1M")
		} else {
			r.table.add(what, median(all), seconds, "")
		}
		if err := r.drop(g.c); err != nil {
			return err
		}
	}
	r.grown = nil
	return nil
}

// restart kills a node that does not lead and starts it at once.
func restart(ctx context.Context, c *cluster, n *node) (time.Duration, error) {
	began := time.Now()
	n.kill()
	if err := c.start(ctx, n); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}
