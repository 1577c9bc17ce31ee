package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// flight is one guarded request on its way to the upstream: what the transport
// sends of it, and what it learns.
type flight struct {
	body    []byte
	timeout time.Duration
	written atomic.Bool // the head of the request was written, so it may have run
	failed  error       // why there is no whole answer; set by one goroutine, the handler's
}

// errTimeout is the cause of an upstream call's end when it took too long.
var errTimeout = errors.New("the upstream did not answer in time")

type flightKey struct{}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// watchdog ends a context with errTimeout when it is not fed for a while.
type watchdog struct {
	timer *time.Timer
	limit time.Duration
	end   context.CancelCauseFunc
}

func watch(ctx context.Context, limit time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{limit: limit, end: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(errTimeout) })
	return ctx, w
}

func (w *watchdog) feed() { w.timer.Reset(w.limit) }
func (w *watchdog) rest() { w.timer.Stop() }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.end(nil)
}
