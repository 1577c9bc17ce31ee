package main

import (
	"context"
	"fmt"
	"time"
)

// compareNodes measures W1 and W2 over clusters of different numbers of nodes,
// in turn, and then how a node catches up with one of them.
func (r *runner) compareNodes(ctx context.Context) error {
	var all []*cluster
	for _, n := range r.nodes {
		c, err := r.newCluster(ctx, n, r.sweepSize())
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	type kind struct{ rates, middles, tails []float64 }
	w1, w2 := make([]kind, len(all)), make([]kind, len(all))
	for range r.rounds {
		for i, c := range all {
			name := nodeCount(r.nodes[i])
			res, err := r.w1(ctx, c)
			if err != nil {
				return err
			}
			r.say("nodes: %s, W1 %.0f a second, p99 %.1f ms", name, res.OpsPerSecond, res.LatencyMs.P99)
			w1[i] = kind{append(w1[i].rates, res.OpsPerSecond), append(w1[i].middles, res.LatencyMs.P50), append(w1[i].tails, res.LatencyMs.P99)}
			if res, err = r.w2(ctx, c); err != nil {
				return err
			}
			r.say("nodes: %s, W2 %.0f a second, p99 %.1f ms", name, res.OpsPerSecond, res.LatencyMs.P99)
			w2[i] = kind{append(w2[i].rates, res.OpsPerSecond), append(w2[i].middles, res.LatencyMs.P50), append(w2[i].tails, res.LatencyMs.P99)}
		}
	}
	for i, n := range r.nodes {
		for _, k := range []struct {
			what  string
			kind  kind
			where string
		}{{"W1", w1[i], "at the leader"}, {"W2", w2[i], "spread over all nodes"}} {
			r.table.add(fmt.Sprintf("%s on %s", k.what, nodeCount(n)), median(k.kind.rates), perSecond, fmt.Sprintf("64 clients %s; p50 %s, p99 %s",
				k.where, number(median(k.kind.middles), milliseconds), number(median(k.kind.tails), milliseconds)))
		}
	}
	for i, c := range all {
		if r.nodes[i] >= 3 {
			if err := r.catchUp(ctx, c); err != nil {
				return fmt.Errorf("catch-up: %w", err)
			}
			break
		}
	}
	for _, c := range all {
		if err := r.drop(c); err != nil {
			return err
		}
	}
	return nil
}

func nodeCount(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// catchUp kills a node, commits as many records as the first size without it,
// and tells how long it takes from its start to having applied them all.
func (r *runner) catchUp(ctx context.Context, c *cluster) error {
	leader, others, err := c.leader(ctx)
	if err != nil {
		return err
	}
	behind := others[0]
	before, err := leader.applied(ctx)
	if err != nil {
		return err
	}
	r.say("nodes: one is killed while %s records are committed", sized(r.sweepSize()))
	behind.kill()
	if err := fillAt(ctx, leader.url, "default", r.sweepSize()); err != nil {
		return err
	}
	want, err := leader.applied(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.launch(behind); err != nil {
		return err
	}
	err = until(ctx, startTime, func() error {
		at, err := behind.applied(ctx)
		if err == nil && at < want {
			_ = pause(ctx, 20*time.Millisecond) // being asked costs it time
			err = fmt.Errorf("it has applied %.0f of %.0f", at, want)
		}
		return err
	}, behind)
	if err != nil {
		return err
	}
	took := time.Since(began)
	r.say("nodes: it caught up in %.2f s", took.Seconds())
	r.table.add(fmt.Sprintf("catch-up of a node that missed %s records", sized(r.sweepSize())), took.Seconds(), seconds,
		fmt.Sprintf("%s, from its start; %s log entries, by batches; the others idle", nodeCount(len(c.nodes)), number(want-before, count)))
	return behind.ready(ctx)
}
