package chaos

import (
	"math/rand/v2"
	"testing"
	"time"
)

// printHistory is a good history of one fingerprint over minutes: claimed, asked
// for again, settled, asked for again within the window, and claimed anew in a
// later minute.
func printHistory(t *testing.T) (ops []*Op) {
	t.Helper()
	o := newOracle(t)
	rng := rand.New(rand.NewPCG(6, 1))
	clock := int64(0)
	do := func(after time.Duration, op *Op) *Op {
		clock += 1000
		o.now = o.now.Add(after)
		op.ID, op.Client, op.NS, op.Call, op.Return, op.Fate = len(ops)+1, len(ops), tradesNS, clock, clock+900, Known
		op.Answer = o.decide(op)
		ops = append(ops, op)
		return op
	}
	reserve := func() *Op {
		return &Op{Fingerprint: "BTC", Kind: Reserve, Request: "t|", AttemptID: newAttempt(rng)}
	}
	for range 3 {
		r := do(time.Minute, reserve())
		do(time.Minute, reserve()) // of another minute, and uncertain
		do(time.Second, &Op{Key: r.Key, Kind: Commit, Token: r.Answer.Token, Verdict: "committed", Response: `1`})
		do(200*time.Millisecond, reserve()) // within the window
	}
	return ops
}

// TestThePrintsBark: a good history of a fingerprint passes; a second claim while
// the first is open, or settled just now, does not.
func TestThePrintsBark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(ops []*Op) []*Op
		bad   bool
	}{
		"good": {func(ops []*Op) []*Op { return ops }, false},
		"claimed beside an open claim": {func(ops []*Op) []*Op {
			return append(ops[:2:2], ops[4:]...) // the commit never was
		}, true},
		"a commit that nobody was told of": {func(ops []*Op) []*Op {
			ops[2].Fate, ops[2].Answer = Unknown, nil
			return append(ops[:3:3], ops[4:]...)
		}, false},
		"claimed within the window": {func(ops []*Op) []*Op {
			ops[2].Answer.Record.Settled = ops[4].Answer.Time - printWindow/2
			return append(ops[:3:3], ops[4:]...)
		}, true},
		"an old key behind the window": {func(ops []*Op) []*Op {
			ops[3].Answer.Time += 2 * printWindow
			return ops[:4]
		}, true},
	} {
		f := &Findings{Linearizable: true}
		f.checkPrints(c.spoil(printHistory(t)))
		if bad := len(f.Reasons) > 0; bad != c.bad {
			t.Errorf("%s: %q", name, f.Reasons)
		}
	}
	f := Check(t.Context(), printHistory(t), nil, Limits{})
	if len(f.Reasons) > 0 || f.Keys != 3 {
		t.Errorf("%d keys: %q", f.Keys, f.Reasons)
	}
}
