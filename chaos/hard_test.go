package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// hardHistory makes up what a cluster with a bad network leaves of one hot key:
// dozens of callers at once, of whose calls every third is never answered, is
// applied not at all, or twice, or long after its caller has left, and calls
// that were repeated inside, so that the log has them more than once.
func (o *oracle) hardHistory(rng *rand.Rand, ns string, n int) (ops []*Op) {
	x := &slot{ns: ns, key: newKey(rng, 1, rng.IntN(2) == 0)}
	var late []*Op // copies that are still under way
	clock := int64(1_000_000)
	for i := range n {
		o.now = o.now.Add(time.Duration(rng.Int64N(int64([]time.Duration{1, 3 * time.Millisecond, 60 * time.Millisecond}[rng.IntN(3)]))))
		if rng.IntN(30) == 0 {
			o.apply(&fsm.Command{Op: fsmpb.Op_OP_SWEEP, Limit: 50})
		}
		for len(late) > 0 && rng.IntN(12) == 0 {
			j := rng.IntN(len(late))
			o.decide(late[j])
			late = slices.Delete(late, j, j+1)
		}
		clock += 1000
		op := x.op(i, rng)
		op.ID, op.Fate = i+1, Known
		op.Call, op.Return = clock-rng.Int64N(30_000), clock+rng.Int64N(30_000)
		switch {
		case op.Kind == Get:
			op.Answer = o.decide(op)
		case rng.IntN(3) == 0:
			op.Fate = Unknown
			for range rng.IntN(3) {
				o.decide(op)
				o.now = o.now.Add(time.Duration(rng.IntN(3)) * time.Millisecond)
			}
			if rng.IntN(2) == 0 {
				late = append(late, op)
			}
		case rng.IntN(6) == 0:
			o.decide(op)
			o.now = o.now.Add(time.Duration(rng.IntN(5)) * time.Millisecond)
			fallthrough
		default:
			op.Answer = o.decide(op)
		}
		x.learn(op)
		ops = append(ops, op)
	}
	return ops
}

// TestHardHistoriesAreDecided: the check comes to a verdict on hard histories,
// the right one, within a bounded number of steps; the search that placed each
// call of unknown fate by itself did not within minutes.
func TestHardHistoriesAreDecided(t *testing.T) {
	t.Parallel()
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	limit := Limits{Within: 2 * time.Minute} // of which a small part is used
	for _, ns := range mixedNamespaces {
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, 13))
			ops := newOracle(t).hardHistory(rng, ns, 150)
			began := time.Now()
			f := Check(t.Context(), ops, nil, limit)
			for _, r := range f.Reasons {
				t.Errorf("%s, seed %d: %s", ns, seed, r)
			}
			good := time.Since(began)
			// The same with one answer that nobody can have been given.
			o := ops[len(ops)*3/4+rng.IntN(len(ops)/4)]
			for o.Fate != Known || o.Answer.Record == nil || o.Answer.Local {
				o = ops[len(ops)/2+rng.IntN(len(ops)/2)]
			}
			o.Answer.Record.Attempt += 7
			began = time.Now()
			f = Check(t.Context(), ops, nil, limit)
			if f.Linearizable || f.Undecided > 0 {
				t.Errorf("%s, seed %d: a wrong answer: linearizable %v, undecided %d: %q", ns, seed, f.Linearizable, f.Undecided, f.Reasons)
			}
			t.Logf("%s, seed %d: %d calls: %v, with a wrong answer %v", ns, seed, len(ops), good, time.Since(began))
		}
	}
}

// TestACheckEnds: a check whose time is over says so, and how to go on; one
// whose context ends comes back.
func TestACheckEnds(t *testing.T) {
	t.Parallel()
	ops := newOracle(t).hardHistory(rand.New(rand.NewPCG(1, 13)), "rerun", 150)
	f := Check(t.Context(), ops, nil, Limits{Within: time.Nanosecond})
	r := &Report{}
	r.take(f)
	r.conclude()
	if f.Undecided != 1 || r.Pass || r.Linearizable != "undecided" || len(r.Reasons) != 1 {
		t.Errorf("undecided %d, %s: %q", f.Undecided, r.Verdict(), r.Reasons)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f := Check(ctx, ops, nil, Limits{}); f.Undecided != 1 || len(f.Unexplained) != 1 {
		t.Errorf("a check that was called off: %+v", f)
	}
}
