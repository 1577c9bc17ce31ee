package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// B28: what nobody swept while there was no leader goes with the first sweeps
// after, however late; until then the calls are told what they would be told if
// it had gone in time.
func TestB28_ALateSweepFindsEverything(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, 1500)
	g.must(cancel("cancelled-0001"))
	r := g.must(reserve("released-0001", "a")).Record
	g.must(release("released-0001", r.Token))
	g.must(reserve("uncertain-0001", "a"))
	g.pass(30 * 24 * time.Hour)
	g.refused(idem.CodeKeyExpired, reserve("order-00000000", "b"))
	for range 2 { // DefaultSweepLimit is 1,000
		g.must(sweep(0))
	}
	if st := g.m.Stats(g.now)["default"]; st.Records != 1 || st.Uncertain != 1 {
		t.Errorf("left after two sweeps: %+v", st)
	}
	if res := g.must(sweep(0)); res.Changed || res.Remaining != 0 {
		t.Errorf("a third sweep: %+v", res)
	}
	audit(t, g.m)
}

// B43: a holder that died between its claim and its outcome. The claim ends with
// its own lease, which is not the ttl; it is seen, it is never given to another
// by itself, and what a person says of it is in the audit trail.
func TestB43_HolderDiesBetweenClaimAndOutcome(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := g.must(reserve(key1, "a")).Record.Token
	g.pass(29*time.Second).refused(idem.CodeInFlight, reserve(key1, "b"))
	g.pass(time.Second)
	for _, later := range []time.Duration{0, 24 * time.Hour, 365 * 24 * time.Hour} {
		g.pass(later).must(sweep(MaxSweep))
		g.refused(idem.CodeUncertain, reserve(key1, "b"))
		g.refused(idem.CodeUncertain, cancel(key1))
		if st := g.m.Stats(g.now)["default"]; st.Uncertain != 1 || st.OldestUncertain != t0.Add(30*time.Second) {
			t.Fatalf("%v later: %+v", later, st)
		}
	}
	g.must(resolve(key1, token, fsmpb.Verdict_VERDICT_NOT_APPLIED))
	trail := g.m.Audit(0, 10)
	if last := trail[len(trail)-1]; last.Action != "resolve" || last.Key != key1 || last.Actor != "ann" || last.Reason == "" {
		t.Errorf("audit: %v", last)
	}
	if res := g.must(reserve(key1, "b")); res.Record.Attempt != 2 || res.Record.Previous.Ended != "not_applied" {
		t.Errorf("%+v", res.Record)
	}
	g.refused(idem.CodeStaleToken, commit(key1, token, "o1")) // the dead one wakes up
}

// B51: a response of any bytes is kept and given back as it is, through the log,
// a snapshot and a replay.
func TestB51_AnyBytesComeBack(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	g := newRig(t)
	for i, response := range [][]byte{all, {0}, {}, bytes.Repeat([]byte{0xff}, MaxResponseBytes/8), []byte(`"\u0000"`)} {
		key := fmt.Sprintf("binary-%04d", i)
		token := g.must(reserve(key, "a")).Record.Token
		c := commit(key, token, "o1")
		c.Response = response
		g.must(c)
		m := restored(t, snapshotOf(t, g.m))
		res, ok := m.Replay(reserve(key, "b"), g.now)
		if !ok || !res.Record.HasResponse || !bytes.Equal(res.Record.Response, response) {
			t.Errorf("%d bytes came back as %d", len(response), len(res.Record.Response))
		}
	}
}
