package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// order is one intent that several gateways may be asked to carry out.
type order struct {
	key     string
	request string

	aliveMu sync.Mutex // guards alive
	alive   map[string]bool
}

// begin and end say of an attempt whether its gateway is alive: the judge must
// know before it says that an attempt did not run and will not.
func (o *order) begin(attempt string) {
	o.aliveMu.Lock()
	defer o.aliveMu.Unlock()
	o.alive[attempt] = true
}

func (o *order) end(attempt string) {
	o.aliveMu.Lock()
	defer o.aliveMu.Unlock()
	o.alive[attempt] = false
}

func (o *order) isAlive(attempt string) bool {
	o.aliveMu.Lock()
	defer o.aliveMu.Unlock()
	return o.alive[attempt]
}

const ordersKept = 500 // that a duplicate may still ask for

// orders carries out one order, through one to three gateways at once, or
// repeats an old one.
func (w *load) orders(ctx context.Context, client int, rng *rand.Rand) {
	gateways := 1
	var o *order
	w.ordersMu.Lock()
	if len(w.recent) > 20 && rng.IntN(4) == 0 {
		o = w.recent[rng.IntN(len(w.recent))]
	} else {
		o = &order{
			key: newKey(rng, w.seed, true), alive: map[string]bool{},
			request: fmt.Sprintf("%d|place", rng.IntN(1_000_000)),
		}
		gateways = 1 + rng.IntN(3)
		if len(w.recent) < ordersKept {
			w.recent = append(w.recent, o)
		} else {
			w.recent[rng.IntN(ordersKept)] = o
		}
	}
	w.ordersMu.Unlock()
	var all sync.WaitGroup
	for range gateways {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		all.Add(1)
		go func() {
			defer all.Done()
			g := &gateway{load: w, order: o, client: client, rng: own}
			g.carryOut(ctx)
		}()
	}
	all.Wait()
}

// gateway is one gateway at one order.
type gateway struct {
	*load
	order  *order
	client int
	rng    *rand.Rand
}

// carryOut works until the order has an outcome, or the gateway dies.
func (g *gateway) carryOut(ctx context.Context) {
	for ctx.Err() == nil {
		attempt := newAttempt(g.rng)
		g.order.begin(attempt)
		again := g.attempt(ctx, attempt)
		g.order.end(attempt)
		if !again {
			return
		}
	}
}

// attempt is one attempt, which asks with the same attemptId until it is told
// something. It gives whether another attempt is to follow.
func (g *gateway) attempt(ctx context.Context, attempt string) (again bool) {
	lease := 2000 + g.rng.Int64N(3000)
	for {
		o := g.op(Reserve)
		o.Request, o.AttemptID, o.Lease = g.order.request, attempt, lease
		if g.rng.IntN(3) == 0 {
			o.Wait = 200 + g.rng.Int64N(800)
		}
		sent := time.Now()
		if g.call(ctx, g.rng, o) != nil {
			return false
		}
		if o.Fate != Known {
			if pause(ctx, 5*time.Millisecond) != nil {
				return false
			}
			continue
		}
		switch o.Answer.Says {
		case "reserved":
			return g.hold(ctx, o.Answer, sent, lease)
		case "in_flight":
			if pause(ctx, between(g.rng, 20*time.Millisecond, 200*time.Millisecond)) != nil {
				return false
			}
		case "uncertain":
			if g.judge(ctx) != nil {
				return false
			}
		case "attempt_spent":
			return true
		default: // replayed, or what the checks will have something to say about
			return false
		}
	}
}

func (g *gateway) op(kind string) *Op {
	return &Op{Client: g.client, NS: "orders", Key: g.order.key, Kind: kind}
}

// hold is what a gateway does with a grant: in the first 80 % of the lease,
// counted from when it asked, it has the order filled, once, and commits.
func (g *gateway) hold(ctx context.Context, grant *Answer, sent time.Time, lease int64) (again bool) {
	switch g.rng.IntN(40) {
	case 0: // dies with nothing done
		return false
	case 1, 2: // finds out before sending that it cannot
		o := g.op(Release)
		o.Token = grant.Token
		g.settle(ctx, o)
		return true
	case 3: // the exchange refuses: that is an outcome
		o := g.op(Fail)
		o.Token, o.Verdict, o.ErrorCode, o.Response = grant.Token, "failed", "refused", `{"why":"no funds"}`
		g.settle(ctx, o)
		return false
	case 4: // slow, but within its lease
		_ = pause(ctx, time.Duration(lease/2)*time.Millisecond)
	}
	for time.Since(sent) > time.Duration(lease)*time.Millisecond*8/10 {
		o := g.op(Extend)
		o.Token, o.Lease = grant.Token, lease
		at := time.Now()
		if g.call(ctx, g.rng, o) != nil {
			return false
		}
		switch {
		case o.Fate != Known:
		case o.Answer.Says == "extended":
			sent = at
		default:
			return false // holds it no longer
		}
	}
	fill, err := g.exchange.fill(context.WithoutCancel(ctx), Fill{NS: "orders", Key: g.order.key, Attempt: grant.AttemptID, Token: grant.Token})
	if err != nil || g.rng.IntN(40) == 0 {
		return false // dies with the order placed
	}
	o := g.op(Commit)
	o.Token, o.Verdict, o.Response = grant.Token, "committed", filled(fill)
	g.settle(ctx, o)
	return false
}

// filled is the response that is recorded for a fill.
func filled(f Fill) string { return fmt.Sprintf(`{"fill":%d,"price":1.10,"by":"%s"}`, f.ID, f.Attempt) }

// settle repeats a settling call until it is told what became of it.
func (g *gateway) settle(ctx context.Context, o *Op) {
	for {
		try := *o
		if g.call(ctx, g.rng, &try) != nil || try.Fate == Known {
			return
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return
		}
	}
}

// judge settles what a dead gateway has left uncertain, by the exchange's own
// book. While the gateway lives the judge waits. The error is ctx's.
func (g *gateway) judge(ctx context.Context) error {
	look := g.op(Get)
	if err := g.call(ctx, g.rng, look); err != nil {
		return err
	}
	if look.Fate != Known || look.Answer.Record == nil || look.Answer.Record.Status != "uncertain" || g.order.isAlive(look.Answer.Record.AttemptID) {
		return pause(ctx, 50*time.Millisecond)
	}
	holder := look.Answer.Record
	fills, err := g.exchange.look(ctx, "orders", g.order.key)
	if err != nil {
		return pause(ctx, 50*time.Millisecond)
	}
	o := g.op(Resolve)
	o.Token, o.Verdict = holder.Token, "not_applied"
	for _, f := range fills {
		if f.Attempt == holder.AttemptID {
			o.Verdict, o.Response = "committed", filled(f)
		}
	}
	g.settle(ctx, o)
	return ctx.Err()
}
