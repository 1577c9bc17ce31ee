package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Grace is how long calls that were under way at the end of a run may still
// take. Then their context ends.
const Grace = 10 * time.Second

// progressEvery is how often Run reports its progress.
const progressEvery = 200 * time.Millisecond

// Op does one call of a client and waits for its end; a client makes one call
// at a time. n is the number of guarded operations that were done, as many as a
// batch holds or 1; with an error n may be less, or 0. The error is counted
// under its Code() string if it has that method, else under its text.
type Op func(ctx context.Context) (n int, err error)

// Load is what to run. Start is called once for each client, 0 to Clients-1,
// before any call. With Rate 0 each client makes its next call when the last
// one ended (closed loop). With a Rate, in calls a second over all clients, each
// call has a time at which it should be sent, whether or not earlier ones have
// ended, and its latency is counted from then: a server that hangs for a second
// is not asked less in that second (no coordinated omission). A call that finds
// no free client before the end is counted as the error not_sent.
type Load struct {
	Clients int
	Rate    float64
	For     time.Duration // what is measured
	Warmup  time.Duration // runs before it, and is not measured
	Start   func(client int) (Op, error)
	CPU     func() (time.Duration, error) // of the servers since they began; nil: not known
}

// Progress is how far a run is. The counts are those of the part that is
// measured.
type Progress struct {
	Warmup     bool
	Elapsed    time.Duration // since the begin of the warm-up
	Total      time.Duration
	Operations int64
	Errors     int64
}

// notSentCode counts the calls of an open loop that found no free client.
const notSentCode = "not_sent"

// Run runs the load to its end and gives its figures. When ctx ends earlier, the

// Run runs the load to its end and gives its figures. When ctx ends earlier, the
// figures so far come with ctx's error. With any other error, which is one of
// Start or of the Load itself, the Result is nil. progress, unless nil, is called
// a few times a second, by one goroutine.
//
// Calls count that began (or, with a rate, should have) in the measured time,
// also when they end after it. Calls that failed have no latency.
func (l Load) Run(ctx context.Context, progress func(Progress)) (*Result, error) {
	if l.Clients < 1 || l.For <= 0 || l.Warmup < 0 || l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0) || l.Start == nil {
		return nil, errors.New("bench: a load needs clients, a time above zero, a rate of zero or more, and Start")
	}
	workers := make([]*worker, l.Clients)
	for i := range workers {
		op, err := l.Start(i)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		workers[i] = newWorker(op)
	}

	calls, endCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer endCalls()
	stop := make(chan struct{}) // closed at the end of the measured time
	r := &run{rate: l.Rate, calls: calls, stop: stop, begin: time.Now()}
	r.from = r.begin.Add(l.Warmup)
	r.until.Store(int64(l.Warmup + l.For))

	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() { r.work(w) })
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()

	meter := meter{cpu: l.CPU}
	r.watch(ctx, l, workers, &meter, progress)
	close(stop)
	finish := time.Now()
	grace := Grace
	if ctx.Err() != nil {
		grace = time.Second // who asks for the end does not want to wait for it
	}
	timer := time.AfterFunc(grace, endCalls)
	<-ended
	timer.Stop()
	meter.stop()

	res := collect(workers)
	if res.last.After(finish) {
		finish = res.last
	}
	if l.Rate > 0 {
		r.countUnsent(res, workers)
	}
	out := res.result(l.Clients, finish.Sub(r.from))
	meter.fill(out)
	return out, ctx.Err()
}

// run is what the workers of one Run share.
type run struct {
	rate  float64
	calls context.Context
	stop  <-chan struct{}
	begin time.Time
	from  time.Time    // of the measured time
	until atomic.Int64 // its end, in nanoseconds after begin
	next  atomic.Int64 // the next slot of an open loop
}

// watch waits until the measured time is over or ctx ends, samples the
// processor time at its begin, and reports progress.
func (r *run) watch(ctx context.Context, l Load, workers []*worker, m *meter, progress func(Progress)) {
	total := l.Warmup + l.For
	warm := time.NewTimer(time.Until(r.from))
	defer warm.Stop()
	end := time.NewTimer(time.Until(r.begin.Add(total)))
	defer end.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	warming := true
	for {
		select {
		case <-warm.C:
			m.start()
			warming = false
			continue
		case <-tick.C:
		case <-end.C:
			return
		case <-ctx.Done():
			r.until.Store(int64(time.Since(r.begin)))
			return
		}
		if progress == nil {
			continue
		}
		p := Progress{Warmup: warming, Elapsed: time.Since(r.begin), Total: total}
		for _, w := range workers {
			p.Operations += w.done.Load()
			p.Errors += w.failed.Load()
		}
		progress(p)
	}
}

// work makes the calls of one client until the end.
func (r *run) work(w *worker) {
	var timer *time.Timer
	for {
		began := time.Now()
		if r.rate > 0 {
			slot := r.next.Add(1) - 1
			due := r.begin.Add(time.Duration(float64(slot) / r.rate * float64(time.Second)))
			if wait := due.Sub(began); wait > 0 {
				if timer == nil {
					timer = time.NewTimer(wait)
					defer timer.Stop()
				} else {
					timer.Reset(wait)
				}
				select {
				case <-timer.C:
				case <-r.stop:
					return
				}
			}
			began = due
		}
		if int64(time.Since(r.begin)) >= r.until.Load() {
			return
		}
		n, err := w.op(r.calls)
		if began.Before(r.from) {
			continue
		}
		ended := time.Now()
		w.record(n, err, ended.Sub(began), ended)
	}
}

// countUnsent adds the calls that were due in the measured time and found no
// client.
func (r *run) countUnsent(c *collected, workers []*worker) {
	until := time.Duration(r.until.Load())
	slots := func(d time.Duration) int64 { return int64(math.Ceil(d.Seconds() * r.rate)) }
	unsent := slots(until) - slots(r.from.Sub(r.begin))
	for _, w := range workers {
		unsent -= w.calls
	}
	if unsent > 0 {
		c.errors[notSentCode] += unsent
	}
}
