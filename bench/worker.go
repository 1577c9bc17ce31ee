package bench

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// The range and the precision of a histogram, in nanoseconds: from a
	// microsecond on, to a thousandth of the value.
	leastLatency = int64(time.Microsecond)
	mostLatency  = int64(10 * time.Minute)
	precision    = 3

	// maxErrorKinds bounds the kinds of errors that one client tells apart.
	maxErrorKinds = 32
)

// worker keeps the figures of one client. Nothing of it is shared but the two
// counts, which the progress reads.
type worker struct {
	op        Op
	done      atomic.Int64
	failed    atomic.Int64
	calls     int64
	latencies *hdrhistogram.Histogram
	errors    map[string]int64
	last      time.Time
	_         [64]byte // the counts of two workers are not in one cache line
}

func newWorker(op Op) *worker {
	return &worker{op: op, latencies: newHistogram(), errors: map[string]int64{}}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(leastLatency, mostLatency, precision)
}

// record counts one call of the measured time.
func (w *worker) record(n int, err error, took time.Duration, at time.Time) {
	w.calls++
	w.last = at
	if err != nil {
		w.failed.Add(1)
		code := codeOf(err)
		if _, known := w.errors[code]; !known && len(w.errors) >= maxErrorKinds {
			code = "other"
		}
		w.errors[code]++
	}
	if n > 0 {
		w.done.Add(int64(n))
	}
	if n > 0 || err == nil {
		_ = w.latencies.RecordValue(min(max(int64(took), 0), mostLatency)) // it is within the range
	}
}

// codeOf names an error in the figures.
func codeOf(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		Code() string
	}](err); ok {
		return coded.Code()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return codeTimeout
	}
	// The innermost text: what is around it names ports and addresses, which
	// would make a kind of each connection.
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// collected are the figures of all workers together.
type collected struct {
	operations int64
	latencies  *hdrhistogram.Histogram
	errors     map[string]int64
	last       time.Time
}

// collect adds up the workers, whose goroutines have ended.
func collect(workers []*worker) *collected {
	c := &collected{latencies: newHistogram(), errors: map[string]int64{}}
	for _, w := range workers {
		c.operations += w.done.Load()
		c.latencies.Merge(w.latencies)
		for code, n := range maps.All(w.errors) {
			c.errors[code] += n
		}
		if w.last.After(c.last) {
			c.last = w.last
		}
	}
	return c
}

// result gives the figures of a run of that length.
func (c *collected) result(clients int, length time.Duration) *Result {
	ms := func(ns int64) float64 { return float64(ns/int64(time.Microsecond)) / 1000 }
	r := &Result{
		Clients: clients, Seconds: max(0, length.Round(time.Millisecond).Seconds()), Operations: c.operations, Errors: c.errors,
		LatencyMs: Latency{
			P50:  ms(c.latencies.ValueAtPercentile(50)),
			P90:  ms(c.latencies.ValueAtPercentile(90)),
			P99:  ms(c.latencies.ValueAtPercentile(99)),
			P999: ms(c.latencies.ValueAtPercentile(99.9)),
			Max:  ms(c.latencies.Max()),
		},
	}
	if r.Seconds > 0 {
		r.OpsPerSecond = rounded(float64(c.operations) / r.Seconds)
	}
	return r
}

// rounded leaves two digits behind the point: more would be noise.
func rounded(f float64) float64 { return math.Round(f*100) / 100 }
