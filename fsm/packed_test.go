package fsm

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onced/onced/fsm/fsmpb"
)

// anyRecord draws a record with anything in it, likely or not.
func anyRecord(rt *rapid.T) *Record {
	text := func(label string) string {
		return rapid.OneOf(
			rapid.Just(""), rapid.String(),
			rapid.StringMatching(`sha256-[0-9a-f]{64}`), rapid.StringMatching(`sha256-[0-9a-fF]{64}`), rapid.StringMatching(`sha257-[0-9a-f]{64}`),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-g]{12}`),
			rapid.StringMatching(`[0-9A-Fa-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f-]{4}-[0-9a-f]{12}`),
		).Draw(rt, label)
	}
	at := func(label string) Time {
		return rapid.OneOf(
			rapid.Just(Time(0)), rapid.Just(t0), rapid.Just(t0.Add(time.Minute)),
			rapid.Custom(func(rt *rapid.T) Time { return Time(rapid.Int64().Draw(rt, "us")) }),
		).Draw(rt, label)
	}
	span := func(label string) time.Duration {
		return time.Duration(rapid.OneOf(
			rapid.SampledFrom([]int64{0, 1, -1, int64(time.Hour), -int64(time.Hour), math.MaxInt64, math.MinInt64}), rapid.Int64(),
		).Draw(rt, label))
	}
	flag := rapid.Bool()
	r := &Record{
		Namespace: "default", Key: text("key"), Operation: text("operation"), RequestDigest: text("request"),
		Status: Status(rapid.IntRange(int(Pending), int(Cancelled)).Draw(rt, "status")), AttemptID: text("attempt id"),
		Token: rapid.Uint64().Draw(rt, "token"), Attempt: rapid.Uint32().Draw(rt, "attempt"), Version: rapid.Uint64().Draw(rt, "version"),
		CreatedAt: at("created"), ClaimedAt: at("claimed"), LeaseExpiresAt: at("lease"), SettledAt: at("settled"),
		ExpiresAt: at("expires"), RetainedUntil: at("retained"), TTL: span("ttl"), Retention: span("retention"),
		RerunOnLeaseExpiry: flag.Draw(rt, "l"), RerunOnExpired: flag.Draw(rt, "e"),
		HasResponse: flag.Draw(rt, "h"), ResponseOmitted: flag.Draw(rt, "o"), Dropped: flag.Draw(rt, "d"), NotApplied: flag.Draw(rt, "n"),
		OutcomeDigest: text("outcome"),
	}
	if b := text("response"); b != "" {
		r.Response = []byte(b)
	}
	if flag.Draw(rt, "rare") {
		r.Replays, r.LastReplayedAt = rapid.Uint64().Draw(rt, "replays"), at("replayed")
		r.ErrorCode, r.CorrelationID, r.Fingerprint = text("error"), text("correlation"), text("fingerprint")
		for range rapid.IntRange(0, 3).Draw(rt, "redacted") {
			r.Redacted = append(r.Redacted, text("path"))
		}
	}
	if flag.Draw(rt, "previous") {
		r.Previous = &PreviousAttempt{
			Attempt: rapid.Uint32().Draw(rt, "n"), Ended: text("ended"), ClaimedAt: at("c"), LeaseExpiresAt: at("e"), CorrelationID: text("id"),
		}
	}
	return r
}

// Whatever a record holds comes out again, and its head says the same.
func TestPack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := anyRecord(rt)
		space := rapid.Uint32().Draw(rt, "space")
		b := packed(pack(nil, r, space))
		var got Record
		unpack(&got, append(b, "what lies behind it"...), "default")
		got.replayed(r.tally()) // kept apart
		if !cmp.Equal(got, *r) {
			rt.Fatal(cmp.Diff(got, *r))
		}
		number, key, _ := b.id()
		if number != space || string(key) != r.Key || b.status() != r.Status || b.at() != placeOf(r) {
			rt.Fatalf("head: %d %q %v %d", number, key, b.status(), b.at())
		}
		if b.token() != r.Token {
			rt.Fatal("token")
		}
		if r.Status == Pending && b.lapse() != r.LeaseExpiresAt.Add(r.TTL+r.Retention) {
			rt.Fatal("lapse")
		}
	})
}

// What the edge makes is small: digests and UUIDs are kept as bytes, times as
// distances.
func TestPackIsSmall(t *testing.T) {
	t.Parallel()
	r := edgeRecord()
	whole := len(r.Key) + len(r.Response) + len(r.Operation) + 32 + 32 + 16 // as bytes
	if n := len(pack(nil, r, 0)); n > whole+48 {
		t.Errorf("%d bytes for %d", n, whole)
	}
	r.Dropped, r.HasResponse, r.Response = true, false, nil
	if n := len(pack(nil, r, 0)); n > whole-64+52 {
		t.Errorf("a tombstone of %d bytes for %d", n, whole-64)
	}
}

// edgeRecord is a committed record as the HTTP edge makes them: a 40-byte key,
// a 64-byte response, digests, a UUID for an attempt.
func edgeRecord() *Record {
	m := New()
	m.now = t0
	sp := m.spaces["default"]
	c := &Command{
		Op: fsmpb.Op_OP_RESERVE, Key: strings.Repeat("k", 40), AttemptId: "018f2c3e-0000-7000-8000-00000000abcd",
		RequestDigest: "sha256-" + strings.Repeat("0a", 32), Operation: "pay",
	}
	m.claim(sp, nil, c, c.Key, "")
	m.now += 2500
	c = &Command{Key: c.Key, OutcomeDigest: "sha256-" + strings.Repeat("0b", 32), HasResponse: true, Response: make([]byte, 64)}
	r := m.get(sp, c.Key)
	m.recordOutcome(sp, r, c, Committed)
	return r
}
