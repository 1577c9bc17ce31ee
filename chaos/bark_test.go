package chaos

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// orderHistory is a good history of orders: reserved, filled, committed,
// replayed by others.
func orderHistory(t *testing.T, keys int) (ops []*Op, fills []Fill) {
	t.Helper()
	o := newOracle(t)
	rng := rand.New(rand.NewPCG(3, 4))
	clock := int64(0)
	do := func(op *Op) *Op {
		clock += 1000
		o.now = o.now.Add(3_000_000)
		op.ID, op.Client, op.NS, op.Call, op.Return, op.Fate = len(ops)+1, len(ops), "orders", clock, clock+900, Known
		op.Answer = o.decide(op)
		ops = append(ops, op)
		return op
	}
	for i := range keys {
		key := newKey(rng, 1, i%2 == 0)
		r := do(&Op{Key: key, Kind: Reserve, Request: "a|", AttemptID: newAttempt(rng)})
		do(&Op{Key: key, Kind: Reserve, Request: "a|", AttemptID: newAttempt(rng)}) // in flight
		fill := Fill{ID: i + 1, NS: "orders", Key: key, Attempt: r.AttemptID, Token: r.Answer.Token}
		fills = append(fills, fill)
		do(&Op{Key: key, Kind: Commit, Token: r.Answer.Token, Verdict: "committed", Response: filled(fill)})
		for range 3 {
			do(&Op{Key: key, Kind: Reserve, Request: "a|", AttemptID: newAttempt(rng)})
		}
	}
	return ops, fills
}

// find gives the i-th op that f likes.
func find(t *testing.T, ops []*Op, i int, f func(*Op) bool) *Op {
	t.Helper()
	for _, o := range ops {
		if f(o) {
			if i == 0 {
				return o
			}
			i--
		}
	}
	t.Fatal("no such call in the history")
	return nil
}

func replayedOp(o *Op) bool { return o.Fate == Known && o.Answer.Says == "replayed" }

// TestTheCheckerBarks: a good history passes, and each way to spoil it is
// noticed, by the count that it belongs to.
func TestTheCheckerBarks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill)
		count func(f *Findings) bool
	}{
		"good": {
			func(_ *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) { return ops, fills },
			func(f *Findings) bool { return len(f.Reasons) == 0 && f.Linearizable },
		},
		"a second grant": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 3, func(o *Op) bool { return o.Answer.Says == "in_flight" })
				first := find(t, ops, 0, func(x *Op) bool { return x.Key == o.Key })
				a := *first.Answer
				a.AttemptID, a.Index, a.Time = o.AttemptID, o.Answer.Index, o.Answer.Time
				a.Token += "9"
				o.Answer = &a
				return ops, fills
			},
			func(f *Findings) bool { return f.DoubleGrants > 0 && !f.Linearizable },
		},
		"the same token twice": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				find(t, ops, 4, (*Op).grants).Answer.Token = find(t, ops, 2, (*Op).grants).Answer.Token
				return ops, fills
			},
			func(f *Findings) bool { return f.DoubleGrants > 0 },
		},
		"a token that fell": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				find(t, ops, 4, (*Op).grants).Answer.Token = "17"
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"a key that came later than its place in the log": { // only all keys together tell
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				var end int64
				for _, o := range ops {
					end = max(end, o.Return)
				}
				key := find(t, ops, 0, (*Op).grants).Key
				for _, o := range ops {
					if o.Key == key {
						o.Call, o.Return = o.Call+end, o.Return+end
					}
				}
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable && len(f.Unexplained) == 0 && f.DoubleGrants == 0 },
		},
		"an order filled twice": {
			func(_ *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) { return ops, append(fills, fills[2]) },
			func(f *Findings) bool { return f.DoubleGrants > 0 && f.Linearizable },
		},
		"a commit without a fill": {
			func(_ *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) { return ops, fills[1:] },
			func(f *Findings) bool { return f.LostOutcomes > 0 },
		},
		"a lost outcome": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 5, replayedOp)
				o.Answer = &Answer{Says: "uncertain", Status: 409, Index: o.Answer.Index, Time: o.Answer.Time, Record: &Seen{Status: "uncertain", Attempt: 1, Version: 1}}
				return ops, fills
			},
			func(f *Findings) bool { return f.LostOutcomes > 0 && !f.Linearizable },
		},
		"an outcome lost so that it runs again": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 5, replayedOp)
				a := *find(t, ops, 0, func(x *Op) bool { return x.Key == o.Key }).Answer
				a.Token, a.AttemptID, a.Time, a.Index = "99999999999999999", o.AttemptID, o.Answer.Time, o.Answer.Index
				o.Answer = &a
				return ops, fills
			},
			func(f *Findings) bool { return f.LostOutcomes > 0 && f.DoubleGrants > 0 && !f.Linearizable },
		},
		"another body": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				r := find(t, ops, 7, replayedOp).Answer.Record
				r.Response = strings.Replace(r.Response, "1.10", "1.1", 1)
				r.Text = strings.Replace(r.Text, "1.10", "1.1", 1)
				return ops, fills
			},
			func(f *Findings) bool { return f.DifferingReplays > 0 && !f.Linearizable },
		},
		"another byte in a record": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				r := find(t, ops, 7, replayedOp).Answer.Record
				r.Text += " "
				return ops, fills
			},
			func(f *Findings) bool { return f.DifferingReplays > 0 },
		},
		"a stale token accepted": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				find(t, ops, 2, func(o *Op) bool { return o.Kind == Commit }).Token = "5"
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"time fell": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				find(t, ops, 2, func(o *Op) bool { return o.Kind == Commit }).Answer.Time -= 60_000
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"time fell between keys": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 2, func(o *Op) bool { return o.Kind == Commit })
				for _, x := range ops {
					if x.Key == o.Key {
						a := *x.Answer
						a.Time -= 60_000
						if r := a.Record; r != nil {
							seen := *r
							for _, at := range []*int64{&seen.Lease, &seen.Expires, &seen.Retained, &seen.Settled} {
								if *at != 0 {
									*at -= 60_000
								}
							}
							a.Record = &seen
						}
						x.Answer = &a
					}
				}
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"an index that was over, on another key": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 6, func(o *Op) bool { return o.Kind == Commit })
				first := find(t, ops, 0, func(x *Op) bool { return x.Key == o.Key })
				first.Answer.Index = ops[0].Answer.Index + 1
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"an answer before its call": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 5, replayedOp)
				first := find(t, ops, 0, func(x *Op) bool { return x.Key == o.Key })
				o.Call, o.Return = first.Call-20, first.Call-10
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"nothing applied, but it was": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 2, func(o *Op) bool { return o.Kind == Commit })
				o.Fate, o.Answer = Nothing, nil
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
		"an internal error": {
			func(t *testing.T, ops []*Op, fills []Fill) ([]*Op, []Fill) {
				o := find(t, ops, 5, replayedOp)
				o.Answer = &Answer{Says: "internal", Status: 500}
				return ops, fills
			},
			func(f *Findings) bool { return !f.Linearizable },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops, fills := orderHistory(t, 8)
			ops, fills = c.spoil(t, ops, fills)
			if f := Check(t.Context(), ops, fills, Limits{}); !c.count(f) {
				t.Errorf("double grants %d, lost %d, differing %d, linearizable %v: %q", f.DoubleGrants, f.LostOutcomes, f.DifferingReplays, f.Linearizable, f.Reasons)
			}
		})
	}
}

// TestTheCheckerBarksAtAnyChange: of a mixed history, changing one word of one
// answer is nearly always noticed; what is not is what no client could tell.
func TestTheCheckerBarksAtAnyChange(t *testing.T) {
	t.Parallel()
	caught, tried := 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		ops := newOracle(t).history(rng, 600, 0.02)
		o := ops[rng.IntN(len(ops))]
		for o.Fate != Known || o.Answer.Record == nil {
			o = ops[rng.IntN(len(ops))]
		}
		switch rng.IntN(4) {
		case 0:
			o.Answer.Record.Version++
		case 1:
			o.Answer.Record.Attempt++
		case 2:
			o.Answer.Says = map[bool]string{true: "stale_token", false: "uncertain"}[o.Answer.Status < 300]
		case 3:
			o.Answer.Record.Status = "released"
			if o.Kind == Release {
				o.Answer.Record.Status = "pending"
			}
		}
		tried++
		var part []*Op
		for _, x := range ops {
			if x.NS == o.NS && x.Key == o.Key {
				part = append(part, x)
			}
		}
		if explain(t.Context(), part, time.Second).result != porcupine.Ok {
			caught++
		}
	}
	if caught < tried*9/10 {
		t.Errorf("%d of %d changes were noticed", caught, tried)
	}
}
