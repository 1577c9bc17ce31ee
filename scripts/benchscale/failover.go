package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/onced/onced/bench"
)

// electionTimeout is raft's at the least multiplier that a node takes: 1 x 200 ms.
const electionTimeout = 200 * time.Millisecond

// failover measures how long nobody decides when a leader is killed, and when it
// leaves in good order.
func (r *runner) failover(ctx context.Context) error {
	r.say("failover: three nodes at an election timeout of %s", electionTimeout)
	c, err := r.newCluster(ctx, 3, smallSize, "--raft-multiplier", "1")
	if err != nil {
		return err
	}
	var gaps []float64
	for i := range r.failovers {
		gap, err := killLeader(ctx, c)
		if err != nil {
			return err
		}
		r.say("failover: kill -9 of the leader, %d of %d: %.0f ms", i+1, r.failovers, ms(gap))
		gaps = append(gaps, float64(gap)/float64(electionTimeout))
	}
	note := fmt.Sprintf("of an election timeout of %s, %d times; calls that began after the kill, at the two that are left", electionTimeout, r.failovers)
	worst := quantile(gaps, 1)
	r.table.target("G20", "kill -9 of the leader to the next success, median", median(gaps), times, 2.5, 2, note)
	r.table.target("G20", "worst", worst, times, 4, 2, number(worst*ms(electionTimeout), milliseconds))

	var handGaps, calm []float64
	operations, refused := 0, 0
	for i := range r.handovers {
		h, err := r.handOver(ctx, c)
		if err != nil {
			return err
		}
		r.say("failover: hand-over %d of %d: gap %.1f ms, %d of %d operations refused", i+1, r.handovers, ms(h.gap), h.refused, h.operations)
		handGaps, calm = append(handGaps, ms(h.gap)), append(calm, ms(h.calm))
		operations, refused = operations+h.operations, refused+h.refused
	}
	worst = quantile(handGaps, 1)
	r.table.target("G22", "hand-over under load: longest time without a success, median", median(handGaps), milliseconds, 50, 10,
		fmt.Sprintf("SIGTERM of the leader, %d times, %d clients; worst %s; without one: %s",
			r.handovers, handOverClients, number(worst, milliseconds), number(median(calm), milliseconds)))
	r.table.target("G22", "operations refused in it", float64(refused), count, 0, 0, fmt.Sprintf("of %s operations, each request sent once, to a node whose last /readyz was 200", number(float64(operations), count)))
	return r.drop(c)
}

// killLeader gives the time from a kill -9 of the leader to the end of the first
// call that succeeds of those that were begun after it. The cluster is whole
// again when it returns.
func killLeader(ctx context.Context, c *cluster) (time.Duration, error) {
	leader, others, err := c.leader(ctx)
	if err != nil {
		return 0, err
	}
	ops := make([]bench.Op, len(others))
	for i, n := range others {
		start, err := (&bench.Onced{Endpoints: []string{n.url}}).Start("reserve")
		if err != nil {
			return 0, err
		}
		if ops[i], err = start(0); err != nil {
			return 0, err
		}
		if _, err := ops[i](ctx); err != nil { // the connection is there before the kill
			return 0, err
		}
	}
	callCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	first := make(chan time.Time, len(ops))
	began := time.Now()
	leader.kill()
	for _, op := range ops {
		go func() {
			for callCtx.Err() == nil {
				if _, err := op(callCtx); err == nil {
					first <- time.Now()
					return
				}
			}
		}()
	}
	var gap time.Duration
	select {
	case at := <-first:
		gap = at.Sub(began)
	case <-callCtx.Done():
		return 0, errors.Join(callCtx.Err(), errNothing)
	}
	return gap, c.start(ctx, leader)
}

const (
	handOverClients = 16
	lookEvery       = 100 * time.Millisecond // of a client at /readyz; a tenth of the default --drain-delay
)

// handOver is what clients noticed of a leader that left.
type handOver struct {
	gap, calm           time.Duration // the longest without a success, from the SIGTERM to the end and before it
	operations, refused int
}

// handOver asks the leader to end, under the load of clients that send each
// request once, to a node whose last /readyz was 200, as behind a load balancer.
// The cluster is whole again when it returns.
func (r *runner) handOver(ctx context.Context, c *cluster) (h handOver, err error) {
	leader, _, err := c.leader(ctx)
	if err != nil {
		return h, err
	}
	watchCtx, endWatch := context.WithCancel(ctx)
	defer endWatch()
	ready := make([]atomic.Bool, len(c.nodes))
	var watching sync.WaitGroup
	for i, n := range c.nodes {
		ready[i].Store(true)
		watching.Go(func() {
			for pause(watchCtx, lookEvery) == nil {
				_, err := ask(watchCtx, "GET", n.url+"/readyz", "")
				ready[i].Store(err == nil)
			}
		})
	}
	k := &calls{}
	load := bench.Load{Clients: handOverClients, For: time.Hour, Start: k.record(readyOnly(c.urls(), ready))}
	loadCtx, endLoad := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = load.Run(loadCtx, nil)
	}()
	warm := time.Now()
	err = pause(ctx, 500*time.Millisecond)
	calmFrom := time.Now()
	if err == nil {
		err = pause(ctx, r.besideSettle)
	}
	left := time.Now()
	if err == nil {
		leader.signal(syscall.SIGTERM)
		leader.wait(15 * time.Second)
		err = pause(ctx, 500*time.Millisecond)
	}
	ended := time.Now()
	endLoad()
	<-done
	endWatch()
	watching.Wait()
	if err != nil {
		return h, err
	}
	h.calm, h.gap = k.longestGap(span{calmFrom, left}), k.longestGap(span{left, ended})
	for _, call := range k.all {
		if call.began.Before(warm) || call.began.After(ended) {
			continue
		}
		h.operations++
		if call.err != nil && call.began.Add(call.took).Before(ended) {
			h.refused++
		}
	}
	return h, c.start(ctx, leader)
}

// readyOnly gives the calls of clients that go round the nodes that are ready.
func readyOnly(urls []string, ready []atomic.Bool) func(client int) (bench.Op, error) {
	return func(client int) (bench.Op, error) {
		ops := make([]bench.Op, len(urls))
		for i, url := range urls {
			start, err := (&bench.Onced{Endpoints: []string{url}}).Start("lifecycle")
			if err != nil {
				return nil, err
			}
			if ops[i], err = start(0); err != nil {
				return nil, err
			}
		}
		at := client
		return func(ctx context.Context) (int, error) {
			for range ops {
				at++
				if ready[at%len(ops)].Load() {
					break
				}
			}
			return ops[at%len(ops)](ctx)
		}, nil
	}
}

// longestGap is the longest time in s in which no call succeeded.
func (k *calls) longestGap(s span) time.Duration {
	ends := []time.Duration{0, s.to.Sub(s.from)}
	for _, c := range k.all {
		if at := c.began.Add(c.took).Sub(s.from); c.err == nil && at > 0 && at < ends[1] {
			ends = append(ends, at)
		}
	}
	return longestStep(ends)
}
