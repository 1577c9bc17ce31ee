package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// slots are the keys that the mixed workload works on at the moment.
type slots struct {
	seed uint64

	slotsMu sync.Mutex // guards hot and cold
	hot     map[string][]*slot
	cold    map[string][]*slot
}

// slot is one key and what its clients have learnt of it: tokens and attempts,
// old ones too, so that wrong ones can be tried.
type slot struct {
	ns, key string

	slotMu   sync.Mutex // guards all below
	used     int
	tokens   []string
	attempts []string
	version  uint64
}

const (
	hotKeys   = 4   // of a namespace
	coldKeys  = 300 // of a namespace, that are come back to
	hotUses   = 80  // calls on a hot key before another takes its place
	coldUses  = 30
	knowledge = 4 // tokens and attempts remembered
)

var mixedNamespaces = []string{"short", "rerun", "mixed"}

func newSlots(seed uint64) *slots {
	return &slots{seed: seed, hot: map[string][]*slot{}, cold: map[string][]*slot{}}
}

// pick gives a key of ns, hot or cold, new or known.
func (s *slots) pick(rng *rand.Rand, ns string) *slot {
	s.slotsMu.Lock()
	defer s.slotsMu.Unlock()
	pool, size, uses := s.hot, hotKeys, hotUses
	if rng.IntN(2) == 0 {
		pool, size, uses = s.cold, coldKeys, coldUses
	}
	fresh := func() *slot { return &slot{ns: ns, key: newKey(rng, s.seed, rng.IntN(2) == 0)} }
	if len(pool[ns]) < size {
		x := fresh()
		pool[ns] = append(pool[ns], x)
		return x
	}
	i := rng.IntN(size)
	x := pool[ns][i]
	x.slotMu.Lock()
	defer x.slotMu.Unlock()
	if x.used++; x.used > uses {
		x = fresh()
		pool[ns][i] = x
	}
	return x
}

// learn keeps what an answer told of the key.
func (x *slot) learn(o *Op) {
	if o.Fate != Known {
		return
	}
	x.slotMu.Lock()
	defer x.slotMu.Unlock()
	if r := o.Answer.Record; r != nil {
		x.version = r.Version
	}
	if o.grants() && !o.Answer.Resumed {
		x.tokens = append(x.tokens, o.Answer.Token)
		x.attempts = append(x.attempts, o.AttemptID)
		if len(x.tokens) > knowledge {
			x.tokens, x.attempts = x.tokens[1:], x.attempts[1:]
		}
	}
}

// latest gives the last of list most of the time, else an older one.
func latest(rng *rand.Rand, list []string) string {
	if len(list) == 0 {
		return ""
	}
	if rng.IntN(5) > 0 {
		return list[len(list)-1]
	}
	return list[rng.IntN(len(list))]
}

// anything makes one call, or a batch of them, of any kind.
func (w *load) anything(ctx context.Context, client int, rng *rand.Rand) {
	ns := mixedNamespaces[rng.IntN(len(mixedNamespaces))]
	if rng.IntN(20) == 0 {
		w.batch(ctx, client, rng, ns)
		return
	}
	x := w.slots.pick(rng, ns)
	o := x.op(client, rng)
	if o.Kind == Reserve && rng.IntN(10) == 0 {
		o.Wait = 50 + rng.Int64N(500)
	}
	if w.call(ctx, rng, o) == nil {
		x.learn(o)
	}
	// An attempt that was told nothing asks again with the same attemptId.
	for o.Fate == Unknown && rng.IntN(3) > 0 && ctx.Err() == nil {
		again := o.again()
		if w.call(ctx, rng, again) == nil {
			x.learn(again)
		}
		o = again
	}
}

func (o *Op) again() *Op {
	n := *o
	n.Fate, n.Answer, n.Cause = "", nil, ""
	return &n
}

func (w *load) batch(ctx context.Context, client int, rng *rand.Rand, ns string) {
	var ops []*Op
	var on []*slot
	for range 2 + rng.IntN(6) {
		x := w.slots.pick(rng, ns)
		o := x.op(client, rng)
		if o.Kind == Get {
			continue
		}
		ops, on = append(ops, o), append(on, x)
	}
	if len(ops) == 0 {
		return
	}
	for {
		err := w.caller.Batch(context.WithoutCancel(ctx), w.nodes[rng.IntN(len(w.nodes))], ops)
		if !errors.Is(err, errNotSent) {
			break
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return
		}
	}
	for i, x := range on {
		x.learn(ops[i])
	}
}

// op makes up a call on x.
func (x *slot) op(client int, rng *rand.Rand) *Op {
	x.slotMu.Lock()
	defer x.slotMu.Unlock()
	o := &Op{Client: client, NS: x.ns, Key: x.key}
	token := latest(rng, x.tokens)
	roll := rng.IntN(100)
	if token == "" && roll >= 45 && roll < 90 {
		roll = 0 // nothing to settle yet
	}
	switch {
	case roll < 45:
		o.Kind = Reserve
		o.Request = "r" + strconv.Itoa(rng.IntN(12)/11) + "|" + []string{"", "op"}[rng.IntN(25)/24]
		if o.AttemptID = newAttempt(rng); len(x.attempts) > 0 && rng.IntN(4) == 0 {
			o.AttemptID = latest(rng, x.attempts)
		}
		if rng.IntN(2) == 0 {
			o.Lease = 50 + rng.Int64N(700)
		}
		if rng.IntN(2) == 0 {
			o.TTL = 200 + rng.Int64N(2000)
		}
	case roll < 58:
		o.Kind, o.Token, o.Verdict = Commit, token, "committed"
		o.Response = answers[rng.IntN(len(answers))]
	case roll < 63:
		o.Kind, o.Token, o.Verdict, o.ErrorCode = Fail, token, "failed", "refused"
		o.Response = answers[rng.IntN(len(answers))]
	case roll < 71:
		o.Kind, o.Token = Release, token
	case roll < 77:
		o.Kind, o.Token, o.Lease = Extend, token, 100+rng.Int64N(800)
	case roll < 83:
		o.Kind, o.Token = Resolve, token
		if o.Verdict = []string{"committed", "failed", "not_applied"}[rng.IntN(3)]; o.Verdict != "not_applied" {
			o.ErrorCode, o.Response = "judged", answers[rng.IntN(len(answers))]
			if o.Verdict == "committed" {
				o.ErrorCode = ""
			}
		}
	case roll < 90:
		o.Kind, o.Token, o.Verdict = Commit, token, "committed"
		o.Response = fmt.Sprintf(`{"n":%d}`, rng.IntN(1000))
		if rng.IntN(2) == 0 {
			o.ExpectedVersion = max(1, x.version-min(x.version, uint64(rng.IntN(3)/2)))
		}
	case roll < 92:
		o.Kind = Cancel
	default:
		o.Kind = Get
	}
	return o
}

// answers are the responses that are told apart byte for byte: digits, escapes
// and the order of members must come back as they were sent.
var answers = []string{``, `{"price":1.10,"qty":1e2}`, `{"b":1,"a":"\u00e9\/"}`, `null`, `[1,2,{"x":"é"}]`}
