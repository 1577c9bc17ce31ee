package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onced/onced/bench"
)

const (
	fillErrors = 50  // that a filling may meet: an election must not end a long run
	fillers    = 8   // clients that fill
	fillBatch  = 500 // records of one of their batches: all of them fit into a leader's queue of 4,096 commands
	besideRate = 200 // operations a second of a load beside something
)

// fill commits n records of a namespace, by batches at the leader.
func (r *runner) fill(ctx context.Context, c *cluster, namespace string, n int) error {
	leader, _, err := c.leader(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	err = r.saturate(ctx, c, func() error { return fillAt(ctx, leader.url, namespace, n) })
	if err == nil {
		took := time.Since(begun)
		r.say("filled %s records in %.1f s, %.0f a second", sized(n), took.Seconds(), float64(n)/took.Seconds())
	}
	return err
}

func fillAt(ctx context.Context, url, namespace string, n int) error {
	fillCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	start, err := (&bench.Onced{Endpoints: []string{url}, Namespace: namespace, Spread: bench.SpreadLeader, BatchSize: fillBatch}).Start("batch")
	if err != nil {
		return err
	}
	var left, errs atomic.Int64
	left.Store(int64(n))
	var running sync.WaitGroup
	failed := make([]error, fillers)
	for i := range fillers {
		op, err := start(i)
		if err != nil {
			return err
		}
		running.Go(func() {
			for left.Add(-fillBatch) > -fillBatch {
				done, err := op(fillCtx)
				left.Add(int64(fillBatch - done))
				if err == nil {
					continue
				}
				if errs.Add(1) > fillErrors {
					failed[i] = err
					cancel()
				}
				if pause(fillCtx, 200*time.Millisecond) != nil {
					return
				}
			}
			left.Add(fillBatch) // not taken; another may have to make up for a batch that failed
		})
	}
	running.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// w1 measures guarded operations at the leader.
func (r *runner) w1(ctx context.Context, c *cluster) (*bench.Result, error) {
	leader, _, err := c.leader(ctx)
	if err != nil {
		return nil, err
	}
	return r.full(ctx, c, "lifecycle", &bench.Onced{Endpoints: []string{leader.url}, Spread: bench.SpreadLeader}, r.plan.w1)
}

// w2 measures duplicates of committed keys, clients spread over all nodes.
func (r *runner) w2(ctx context.Context, c *cluster) (*bench.Result, error) {
	o := &bench.Onced{Endpoints: c.urls(), Spread: bench.SpreadAny}
	if err := o.Prepare(ctx, 0); err != nil {
		return nil, err
	}
	return r.full(ctx, c, "replay", o, r.plan.w2)
}

func (r *runner) full(ctx context.Context, c *cluster, kind string, o *bench.Onced, length time.Duration) (res *bench.Result, err error) {
	start, err := o.Start(kind)
	if err != nil {
		return nil, err
	}
	err = r.saturate(ctx, c, func() error {
		res, err = bench.Load{Clients: clients, For: length, Warmup: r.warmup, Start: start}.Run(ctx, nil)
		return err
	})
	if err == nil && res.Operations == 0 {
		err = fmt.Errorf("%w: %v", errNothing, res.Errors)
	}
	if err == nil && len(res.Errors) > 0 {
		r.say("errors: %v", res.Errors)
	}
	return res, err
}

// call is one of a load's, by when it began.
type call struct {
	began time.Time
	took  time.Duration
	err   error
}

// calls are those of a load. What they were beside is known only afterwards.
type calls struct {
	mu  sync.Mutex
	all []call
}

// record lets every call of start be kept.
func (k *calls) record(start func(int) (bench.Op, error)) func(int) (bench.Op, error) {
	return func(client int) (bench.Op, error) {
		op, err := start(client)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (int, error) {
			began := time.Now()
			n, err := op(ctx)
			took := time.Since(began)
			k.mu.Lock()
			k.all = append(k.all, call{began, took, err})
			k.mu.Unlock()
			return n, err
		}, nil
	}
}

// span is a time.
type span struct{ from, to time.Time }

// split gives the latencies of the calls that were under way in one of the
// spans, those of the others, and how many failed.
func (k *calls) split(spans []span) (during, beside []time.Duration, failed int) {
	for _, c := range k.all {
		if c.err != nil {
			failed++
			continue
		}
		in := false
		for _, s := range spans {
			in = in || c.began.Before(s.to) && c.began.Add(c.took).After(s.from)
		}
		if in {
			during = append(during, c.took)
		} else {
			beside = append(beside, c.took)
		}
	}
	return during, beside, failed
}

// beside runs a low and steady load of guarded operations over all nodes, in the
// default namespace, for as long as do takes.
func (r *runner) beside(ctx context.Context, c *cluster, do func(ctx context.Context) error) (*calls, error) {
	start, err := (&bench.Onced{Endpoints: c.urls(), Spread: bench.SpreadAny}).Start("lifecycle")
	if err != nil {
		return nil, err
	}
	k := &calls{}
	loadCtx, endLoad := context.WithCancel(ctx)
	defer endLoad()
	done := make(chan error, 1)
	go func() {
		_, err := bench.Load{Clients: clients, Rate: besideRate, For: time.Hour, Start: k.record(start)}.Run(loadCtx, nil)
		done <- err
	}()
	err = do(ctx)
	endLoad()
	<-done // it ends with its context
	return k, err
}

// createNamespace makes one, its policy as JSON.
func createNamespace(ctx context.Context, c *cluster, name, policy string) error {
	_, err := ask(ctx, http.MethodPut, c.nodes[0].url+"/v1/namespaces/"+name, policy)
	return err
}
