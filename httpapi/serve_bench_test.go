package httpapi

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// benchNode decides nothing: every command gets the same result.
type benchNode struct {
	*fakeNode
	result fsm.Result
	many   []fsm.Result
}

func (n *benchNode) Leader() string { return "n1" }

func (n *benchNode) Decide(ctx context.Context, cmds []*fsm.Command, _ time.Duration) (*fsm.Decision, error) {
	_, _ = ctx.Deadline() // all that an answer from memory asks
	n.many = n.many[:0]
	for range cmds {
		n.many = append(n.many, n.result)
	}
	return &fsm.Decision{Index: 123_456, Time: epoch.Add(time.Minute), Results: n.many}, nil
}

func (n *benchNode) Read(_ context.Context, _ fsm.ReadOptions, f func(*fsm.Machine, fsm.Time)) (uint64, fsm.Time, error) {
	f(n.machine, n.clock)
	return 123_456, n.clock, nil
}

const benchCommit = `{"key":"bench-key-0123456789012345678901234567","token":"1796052345678901","response":{"chargeId":"ch_1","amount":12.50,"currency":"EUR","status":"ok"}}`

// BenchmarkServe is what the edge adds to a call: all of ServeHTTP, without
// net/http and with a node that costs nothing.
func BenchmarkServe(b *testing.B) {
	pending := &fsm.Record{
		Namespace: "default", Key: "bench-key-0123456789012345678901234567", Operation: "payments.charge",
		RequestDigest: "sha256-74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
		Status:        fsm.Pending, AttemptID: attemptA, Token: 1796052345678901, Attempt: 1, Version: 1,
		CreatedAt: epoch, ClaimedAt: epoch, LeaseExpiresAt: epoch.Add(2 * time.Minute), CorrelationID: "corr-0123456789abcdef",
	}
	done := *pending
	done.Status, done.Version, done.SettledAt, done.LeaseExpiresAt = fsm.Committed, 2, epoch, epoch
	done.ExpiresAt, done.RetainedUntil = epoch.Add(time.Hour), epoch.Add(2*time.Hour)
	done.HasResponse, done.Response = true, []byte(`{"chargeId":"ch_1","amount":12.50,"currency":"EUR","status":"ok"}`)
	of := func(item string) string {
		item = strings.Replace(item, "{", `{"op":"reserve",`, 1)
		if strings.Contains(item, "token") {
			item = strings.Replace(item, "reserve", "commit", 1)
		}
		return `{"operations":[` + strings.Repeat(item+",", 49) + item + `]}`
	}
	for _, c := range []struct {
		name, op, body string
		status         int
		result         fsm.Result
	}{
		{"reserve", "reserve", benchReserve, 201, fsm.Result{Outcome: fsm.OutcomeReserved, Record: pending, Changed: true, LeaseRemaining: 30 * time.Second}},
		{"replay", "reserve", benchReserve, 200, fsm.Result{Outcome: fsm.OutcomeReplayed, Record: &done}},
		{"inflight", "reserve", benchReserve, 409, fsm.Result{Code: idem.CodeInFlight, Record: pending, RetryAfter: 30 * time.Second}},
		{"commit", "commit", benchCommit, 200, fsm.Result{Outcome: fsm.OutcomeCommitted, Record: &done, Changed: true}},
		{"batch50reserve", "batch", of(benchReserve), 200, fsm.Result{Outcome: fsm.OutcomeReserved, Record: pending, Changed: true, LeaseRemaining: 30 * time.Second}},
		{"batch50replay", "batch", of(benchReserve), 200, fsm.Result{Outcome: fsm.OutcomeReplayed, Record: &done}},
		{"batch50commit", "batch", of(benchCommit), 200, fsm.Result{Outcome: fsm.OutcomeCommitted, Record: &done, Changed: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := New(Options{Node: &benchNode{fakeNode: newFakeNode(), result: c.result}})
			w := &nullWriter{h: map[string][]string{}}
			r, rd := benchRequest("/v1/namespaces/default/"+c.op, []byte(c.body))
			b.ReportAllocs()
			for b.Loop() {
				w.reset()
				_, _ = rd.Seek(0, io.SeekStart)
				s.ServeHTTP(w, r)
				if w.status != c.status {
					b.Fatal(w.status)
				}
			}
		})
	}
}
