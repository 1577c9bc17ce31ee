package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onced/onced/client"
)

// The lease counts from when the call was sent, by the client's own clock; the
// absolute times of the answer are of a clock that is years off (rule M of
// semantics.md section 1, "lease as an absolute time in the client").
func TestLeaseCountsFromSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		w.fate = func(sent, int) fate { return fate{after: 4 * time.Second} }
		c := dial(t, w)
		start := time.Now()
		claim := mustReserve(t, c, key)
		if got := claim.Lease.Deadline().Sub(start); got != 30*time.Second {
			t.Errorf("the lease ends %s after the call was sent, want 30s", got)
		}
		if got := claim.Lease.Remaining(); got != 26*time.Second {
			t.Errorf("%s are left, want 26s", got)
		}
		if claim.Lease.Length() != 30*time.Second {
			t.Errorf("length %s", claim.Lease.Length())
		}
		time.Sleep(20*time.Second - time.Millisecond)
		if !claim.Lease.MayStart() {
			t.Error("before 80 % of the lease an effect may start")
		}
		time.Sleep(time.Millisecond)
		if claim.Lease.MayStart() {
			t.Error("from 80 % of the lease on no effect may start")
		}
		sent := time.Now()
		ext, err := c.Extend(t.Context(), client.ExtendRequest{Key: key, Token: claim.Token, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if got := ext.Lease.Deadline().Sub(sent); got != time.Minute {
			t.Errorf("the renewed lease ends %s after the call was sent", got)
		}
	})
}

// The lease of a claim whose first answer was lost counts from the try that was
// answered: the node renewed it after that was sent.
func TestLeaseAfterALostReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		w.fate = func(_ sent, nth int) fate { return fate{after: 2 * time.Second, lost: nth == 1} }
		start := time.Now()
		claim := mustReserve(t, dial(t, w), key)
		if got := claim.Lease.Deadline().Sub(start); got != 32*time.Second {
			t.Errorf("the lease ends %s after the first try", got)
		}
		if end := n.record(t, key).LeaseExpiresAt; n.now().Std().Add(claim.Lease.Remaining()).After(end.Std()) {
			t.Error("the client holds the lease for longer than the cluster")
		}
	})
}

// A wait that is longer than a node keeps a call is asked for in parts, and
// ends with the outcome of the first attempt.
func TestWaitInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		c := dial(t, w)
		res, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key, Lease: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(90 * time.Second)
			if _, err := c.Commit(t.Context(), client.CommitRequest{Key: key, Token: res.Claim.Token, Response: "done"}); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		got, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key, Wait: 3 * time.Minute})
		if err != nil || got.Outcome != client.Replayed || string(got.Record.Response) != `"done"` {
			t.Fatalf("%+v, %v", got, err)
		}
		if took := time.Since(start); took != 90*time.Second {
			t.Errorf("told after %s", took)
		}
		calls := w.calls("reserve")
		if len(calls) != 6 { // the claim, four parts of 20 s, and the one that was woken
			t.Errorf("%d calls", len(calls))
		}
		for _, s := range calls[2:] {
			if s.member(t, "attemptId") != calls[1].member(t, "attemptId") {
				t.Error("a part has an attemptId of its own")
			}
		}
	})
}

// A wait that is over says in flight, within the budget of the context too.
func TestWaitIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		c := dial(t, w)
		mustReserve(t, c, key)
		start := time.Now()
		_, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key, Wait: 7 * time.Second})
		is(t, err, client.ErrInFlight)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("waited %s", took)
		}
		if p := problem(t, err); p.RetryAfter == 0 || p.Record == nil || p.AttemptID == "" {
			t.Errorf("%+v", p)
		}
		ctx, cancel := contextFor(t, 4*time.Second)
		defer cancel()
		_, err = c.Reserve(ctx, client.ReserveRequest{Key: key, Wait: 7 * time.Second})
		is(t, err, client.ErrInFlight)
	})
}

// A node that vanishes while a call is parked there costs part of the wait.
func TestWaitAtANodeThatVanishes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		c := dial(t, w)
		claim := mustReserve(t, c, key)
		w.fate = func(s sent, _ int) fate { return fate{silent: s.host == "n1" && s.op == "reserve"} }
		go func() {
			time.Sleep(2 * time.Second)
			if _, err := dial(t, &wire{nodes: w.nodes}).Commit(t.Context(), client.CommitRequest{Key: key, Token: claim.Token}); err != nil {
				t.Error(err)
			}
		}()
		got, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key, Wait: 40 * time.Second})
		if err != nil || got.Outcome != client.Replayed {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
