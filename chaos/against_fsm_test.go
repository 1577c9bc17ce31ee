package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// oracle is the product's machine, fed with the workload's own calls: what it
// says is what the model must explain.
type oracle struct {
	m     *fsm.Machine
	index uint64
	now   fsm.Time
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	o := &oracle{m: fsm.New(), now: fsm.TimeOf(time.Now())}
	for _, p := range policies {
		window := int64(30_000_000)
		if p.Window != 0 {
			window = p.Window * 1000
		}
		patch := &fsmpb.PolicyPatch{
			FingerprintWindowUs: &window,
			TtlUs:               new(p.TTL * 1000), RetentionUs: new(p.Retention * 1000), LeaseUs: new(p.Lease * 1000), MaxLeaseUs: new(p.MaxLease * 1000),
			RerunOnLeaseExpiry: &p.RerunLease, RerunOnExpired: &p.RerunExpired, RejectDuplicates: &p.RejectRepeats, Redact: new(false),
		}
		if res := o.apply(&fsm.Command{Op: fsmpb.Op_OP_NAMESPACE_PUT, Namespace: p.Name, Policy: patch}); res.Code != "" {
			t.Fatalf("policy %s: %s %s", p.Name, res.Code, res.Detail)
		}
	}
	return o
}

func (o *oracle) apply(c *fsm.Command) fsm.Result {
	o.index++
	return o.m.Apply(o.index, &fsm.Entry{TimeUs: int64(o.now), Commands: []*fsm.Command{c}})[0]
}

var opCodes = map[string]fsmpb.Op{
	Reserve: fsmpb.Op_OP_RESERVE, Commit: fsmpb.Op_OP_COMMIT, Fail: fsmpb.Op_OP_FAIL, Release: fsmpb.Op_OP_RELEASE,
	Extend: fsmpb.Op_OP_EXTEND, Cancel: fsmpb.Op_OP_CANCEL, Resolve: fsmpb.Op_OP_RESOLVE,
}

var verdicts = map[string]fsmpb.Verdict{
	"committed": fsmpb.Verdict_VERDICT_COMMITTED, "failed": fsmpb.Verdict_VERDICT_FAILED, "not_applied": fsmpb.Verdict_VERDICT_NOT_APPLIED,
}

func commandOf(o *Op) *fsm.Command {
	c := &fsm.Command{
		Op: opCodes[o.Kind], Namespace: o.NS, Key: o.Key, AttemptId: o.AttemptID, LeaseUs: o.Lease * 1000, TtlUs: o.TTL * 1000,
		ErrorCode: o.ErrorCode, ExpectedVersion: o.ExpectedVersion, Verdict: verdicts[o.Verdict],
		Response: []byte(o.Response), HasResponse: o.Response != "", OutcomeDigest: o.outcome(),
	}
	if o.Fingerprint != "" {
		c.Key, c.Fingerprint = "", "trade:chaos:"+o.Fingerprint+":BUY:1:live"
	}
	c.RequestDigest, c.Operation, _ = strings.Cut(o.Request, "|")
	c.Token, _ = idem.ParseToken(o.Token)
	return c
}

// decide has o decided, and gives what the API would answer.
func (o *oracle) decide(op *Op) *Answer {
	if op.Kind == Get {
		r, ok := o.m.Record(op.NS, op.Key)
		a := &Answer{Says: "not_found", Status: 404, Index: o.index, Time: o.millis(o.m.Now())}
		if ok {
			a.Says, a.Status, a.Record = "ok", 200, o.seen(r, true)
		}
		return a
	}
	res := o.apply(commandOf(op))
	if op.Fingerprint != "" && res.Record != nil {
		op.Key = res.Record.Key
	}
	return o.answer(res)
}

func (o *oracle) answer(res fsm.Result) *Answer {
	a := &Answer{Index: o.index, Time: o.millis(o.m.Now()), Status: 200, Resumed: res.Resumed}
	if res.Code != "" {
		a.Status = 409
		a.Says = strings.TrimPrefix(strings.TrimPrefix(string(res.Code), "idempotency_"), "key_")
		if res.Record != nil && res.Code != idem.CodeKeyConflict {
			a.Record = o.seen(res.Record, false)
			a.Record.Retained, a.Record.Text = 0, ""
			if res.Code != idem.CodeAlreadySettled {
				a.Record.Settled, a.Record.Response, a.Record.ErrorCode = 0, "", ""
			}
		}
		return a
	}
	a.Says = strings.ToLower(strings.TrimPrefix(res.Outcome.String(), "OUTCOME_"))
	a.Record = o.seen(res.Record, a.Says == "reserved")
	if a.Says == "reserved" {
		a.Status, a.Token, a.AttemptID = 201, idem.FormatToken(res.Record.Token), res.Record.AttemptID
		if res.Record.Previous != nil {
			a.Ended = res.Record.Previous.Ended
		}
	}
	a.Local = a.Says == "replayed" || a.Says == "duplicate"
	return a
}

func (o *oracle) millis(t fsm.Time) int64 { return int64(t) / 1000 }

func (o *oracle) seen(r *fsm.Record, secret bool) *Seen {
	status, _, _ := o.m.ViewStatus(r, o.m.Now())
	s := &Seen{Status: status, Attempt: r.Attempt, Version: r.Version, Expires: o.millis(r.ExpiresAt), Retained: o.millis(r.RetainedUntil)}
	if r.Status == fsm.Pending {
		s.Lease = o.millis(r.LeaseExpiresAt)
	} else {
		s.Settled = o.millis(r.SettledAt)
	}
	if r.Settled() {
		s.ErrorCode = r.ErrorCode
	}
	if s.settled() {
		s.Response = string(r.Response)
		s.Text = fmt.Sprintf("%s v%d %s %s at %d", r.Key, r.Version, r.ErrorCode, r.Response, r.SettledAt)
	}
	if secret && r.Token != 0 {
		s.Token, s.AttemptID = idem.FormatToken(r.Token), r.AttemptID
	}
	return s
}

// history makes n calls up as the mixed workload does, decides them one after
// the other, and spreads their calls and returns so that they overlap. Of those
// whose share is lost some were applied, some twice, some never.
func (o *oracle) history(rng *rand.Rand, n int, lost float64) []*Op {
	pool := newSlots(1)
	var ops []*Op
	clock := int64(1)
	for i := range n {
		ns := mixedNamespaces[rng.IntN(len(mixedNamespaces))]
		x := pool.pick(rng, ns)
		op := x.op(i, rng)
		// Times that bring edges about: steps from nothing to a whole lease.
		o.now = o.now.Add(time.Duration(rng.Int64N(int64([]time.Duration{1, 2 * time.Millisecond, 40 * time.Millisecond}[rng.IntN(3)]))))
		if rng.IntN(30) == 0 {
			o.apply(&fsm.Command{Op: fsmpb.Op_OP_SWEEP, Limit: 50})
		}
		clock += 1 + rng.Int64N(1000)
		op.ID = i + 1
		op.Call, op.Return = clock-rng.Int64N(3000), clock+rng.Int64N(3000)
		op.Fate = Known
		if rng.Float64() < lost && op.Kind != Get {
			op.Fate = Unknown
			for range rng.IntN(3) {
				o.decide(op)
				o.now = o.now.Add(time.Duration(rng.IntN(3)) * time.Millisecond)
			}
		} else {
			op.Answer = o.decide(op)
		}
		x.learn(op)
		ops = append(ops, op)
	}
	return ops
}

// TestModelExplainsTheMachine: whatever the product's machine answers to the
// workload's calls, the model's transcription of the contract says it too, with
// and without lost answers.
func TestModelExplainsTheMachine(t *testing.T) {
	t.Parallel()
	n := 6000
	if testing.Short() {
		n = 1500
	}
	says := map[string]int{}
	for seed := range uint64(4) {
		o := newOracle(t)
		ops := o.history(rand.New(rand.NewPCG(seed, 7)), n, []float64{0, 0.05}[seed%2])
		for _, op := range ops {
			if op.Fate == Known {
				says[op.Kind+" "+op.Answer.Says]++
			}
		}
		f := Check(t.Context(), ops, nil, Limits{})
		for _, r := range f.Reasons {
			t.Errorf("seed %d: %s", seed, r)
		}
		for _, part := range f.Unexplained[:min(1, len(f.Unexplained))] {
			for _, op := range part {
				t.Logf("%d-%d %s", op.Call, op.Return, op)
			}
		}
	}
	// The histories must reach what they are to show.
	for _, want := range []string{
		"reserve reserved", "reserve in_flight", "reserve uncertain", "reserve conflict", "reserve replayed", "reserve duplicate",
		"reserve expired", "reserve cancelled", "reserve attempt_spent", "commit committed", "commit stale_token", "commit already_settled",
		"commit stale_version", "commit not_found", "fail failed", "release released", "extend extended", "cancel cancelled",
		"cancel in_flight", "resolve resolved", "resolve in_flight", "get ok", "get not_found",
	} {
		if says[want] == 0 {
			t.Errorf("nothing was answered %q", want)
		}
	}
}
