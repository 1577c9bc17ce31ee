package chaos

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The workloads.
const (
	// OrderOnce: gateways compete to place orders, each of which may be filled
	// once; some die with the order placed, some before, and a judge settles
	// what they leave.
	OrderOnce = "order-once"
	// Mixed: every operation, in any order, with right and wrong tokens,
	// requests and versions, on hot and cold keys of namespaces with short
	// leases and ttls, and orders beside it.
	Mixed = "mixed"
)

// Workloads are the names that a run can be asked for.
var Workloads = []string{OrderOnce, Mixed}

// load is a workload at work.
type load struct {
	caller   *Caller
	nodes    []*Node
	exchange *exchange
	seed     uint64

	ordersMu sync.Mutex // guards recent
	recent   []*order

	slots *slots
}

// run drives clients until ctx ends, and returns when all calls have.
func (w *load) run(ctx context.Context, workload string, clients int) {
	var all sync.WaitGroup
	for i := range clients {
		rng := rand.New(rand.NewPCG(w.seed, uint64(i)+1))
		all.Add(1)
		go func() {
			defer all.Done()
			for ctx.Err() == nil {
				switch {
				case workload == Mixed && i%8 == 4:
					w.trade(ctx, i, rng)
				case workload == Mixed && i%4 != 0:
					w.anything(ctx, i, rng)
				default:
					w.orders(ctx, i, rng)
				}
			}
		}()
	}
	all.Wait()
}

// call makes o at some node that listens. The error is ctx's.
func (w *load) call(ctx context.Context, rng *rand.Rand, o *Op) error {
	for {
		n := w.nodes[rng.IntN(len(w.nodes))]
		// A call that has begun is waited for even when the run ends: its caller
		// is still there.
		err := w.caller.Do(context.WithoutCancel(ctx), n, o)
		if !errors.Is(err, errNotSent) {
			return ctx.Err()
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// newKey makes a key that carries its birth (a UUIDv7), or one that does not.
func newKey(rng *rand.Rand, seed uint64, born bool) string {
	if !born {
		return fmt.Sprintf("key:%d:%016x", seed, rng.Uint64())
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16|rng.Uint64()&0xffff)
	binary.BigEndian.PutUint64(b[8:], rng.Uint64())
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// newAttempt makes an attemptId.
func newAttempt(rng *rand.Rand) string {
	return fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64())
}
