package httpapi

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// The oracle of what writes itself: the same shown as the types of the API, and
// written by the JSON library.

func oracleRecord(r *fsm.Record, now fsm.Time, secret bool) *idem.Record {
	status, verdict := viewStatus(r, now)
	v := &idem.Record{
		Namespace: r.Namespace, Key: r.Key, Operation: r.Operation, RequestHash: r.RequestDigest,
		Status: status, Verdict: verdict,
		ErrorCode: r.ErrorCode, Attempt: r.Attempt, Version: r.Version,
		CreatedAt: stamp(r.CreatedAt), LeaseExpiresAt: stamp(leaseEnd(r)), ExpiresAt: stamp(r.ExpiresAt),
		RetainedUntil: stamp(r.RetainedUntil), Replays: r.Replays, LastReplayedAt: stamp(r.LastReplayedAt),
		CorrelationID: r.CorrelationID,
	}
	if r.Status != fsm.Pending {
		v.SettledAt = stamp(r.SettledAt)
	}
	if r.Settled() && status != statusExpired {
		v.ResponseOmitted, v.Redacted = r.ResponseOmitted, r.Redacted
		if r.HasResponse {
			v.Response = r.Response
		}
	}
	if secret && r.Token != 0 {
		v.AttemptID, v.Token = r.AttemptID, idem.FormatToken(r.Token)
	}
	return v
}

func oracleAnswer(a *answer, now fsm.Time) *idem.Answer {
	r := a.res.Record
	v := &idem.Answer{Outcome: a.outcome, Record: oracleRecord(r, now, a.view.secret)}
	switch a.res.Outcome {
	case fsm.OutcomeReserved:
		v.Token, v.AttemptID, v.Attempt = idem.FormatToken(r.Token), r.AttemptID, r.Attempt
		v.Resumed = &a.res.Resumed
		v.LeaseRemaining = idem.FormatDuration(a.res.LeaseRemaining)
		if p := r.Previous; p != nil {
			v.PreviousAttempt = &idem.PreviousAttempt{
				Attempt: p.Attempt, Ended: p.Ended, ClaimedAt: stamp(p.ClaimedAt),
				LeaseExpiresAt: stamp(p.LeaseExpiresAt), CorrelationID: p.CorrelationID,
			}
		}
	case fsm.OutcomeExtended:
		v.LeaseRemaining = idem.FormatDuration(a.res.LeaseRemaining)
	}
	return v
}

// oracleProblem has a record of its own: idem.Record names members that a
// problem's record never has, even as empty ones.
type oracleProblem struct {
	Type          string               `json:"type"`
	Title         string               `json:"title"`
	Status        int                  `json:"status"`
	Detail        string               `json:"detail,omitempty"`
	Code          idem.Code            `json:"code"`
	Retryable     bool                 `json:"retryable"`
	SafeNewKey    bool                 `json:"safeNewKey"`
	Applied       idem.Applied         `json:"applied,omitempty"`
	Key           string               `json:"key,omitempty"`
	Operation     string               `json:"operation,omitempty"`
	AttemptID     string               `json:"attemptId,omitempty"`
	Verdict       string               `json:"verdict,omitempty"`
	Record        *oracleProblemRecord `json:"record,omitempty"`
	RetryAfterMs  int64                `json:"retryAfterMs,omitzero"`
	CorrelationID string               `json:"correlationId"`
}

type oracleProblemRecord struct {
	Status         string `json:"status"`
	Attempt        uint32 `json:"attempt"`
	Version        uint64 `json:"version"`
	CreatedAt      string `json:"createdAt"`
	LeaseExpiresAt string `json:"leaseExpiresAt,omitempty"`
	ExpiresAt      string `json:"expiresAt,omitempty"`

	SettledAt       string         `json:"settledAt,omitempty"`
	Response        jsontext.Value `json:"response,omitzero"`
	ResponseOmitted bool           `json:"responseOmitted,omitzero"`
	Redacted        []string       `json:"redacted,omitempty"`
	ErrorCode       string         `json:"errorCode,omitempty"`
}

func oracleOfProblem(p *problem) *oracleProblem {
	v := &oracleProblem{
		Type: ProblemTypeBase + string(p.code), Title: p.standing.title, Status: p.standing.status, Detail: p.detail,
		Code: p.code, Retryable: p.code.Retryable(), SafeNewKey: p.safeNewKey, Applied: p.applied, Key: p.key,
		Operation: p.operation, AttemptID: p.attemptID, Verdict: p.verdict, RetryAfterMs: p.retryAfterMs, CorrelationID: p.correlationID,
	}
	if r := p.record.rec; r != nil {
		v.Record = &oracleProblemRecord{
			Status: p.record.status, Attempt: r.Attempt, Version: r.Version,
			CreatedAt: stamp(r.CreatedAt), LeaseExpiresAt: stamp(leaseEnd(r)), ExpiresAt: stamp(r.ExpiresAt),
		}
		if p.record.outcome {
			v.Record.SettledAt, v.Record.ErrorCode = stamp(r.SettledAt), r.ErrorCode
			if p.record.status != statusExpired {
				v.Record.ResponseOmitted, v.Record.Redacted = r.ResponseOmitted, r.Redacted
				if r.HasResponse {
					v.Record.Response = r.Response
				}
			}
		}
	}
	return v
}

// someText is mostly what callers send, and sometimes what must be escaped or
// cannot be written at all.
var someText = rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.SampledFrom([]string{"", "plain", "é ☃ 😀", "\"\\\n\x00\x7f<&>", "\u2028", "\xff"}))

var someTime = rapid.Custom(func(t *rapid.T) fsm.Time {
	return fsm.Time(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64(), rapid.Int64Range(epochMicros-1e9, epochMicros+1e9)).Draw(t, "time"))
})

var epochMicros = int64(epoch)

var someJSON = rapid.SampledFrom([]string{
	`{"chargeId":"ch_1","amount":12.50}`, `{"b":1,"a":[true,null,1e400,-0]}`, "null", `"\u0041\/é"`, `{"é":1}`, ` { "a" : 1 } `, // stored compact, and all the same
	`{"a":1,"a":2}`, `{`, "", "\"\xff\"", "1 2",
})

var someRecord = rapid.Custom(func(t *rapid.T) *fsm.Record {
	text := func(name string) string { return someText.Draw(t, name) }
	at := func(name string) fsm.Time { return someTime.Draw(t, name) }
	r := &fsm.Record{
		Namespace: text("namespace"), Key: text("key"), Operation: text("operation"), RequestDigest: text("digest"),
		Status:    fsm.Status(rapid.Int32Range(-1, 7).Draw(t, "status")),
		AttemptID: text("attemptId"), Token: rapid.Uint64().Draw(t, "token"), Attempt: rapid.Uint32().Draw(t, "attempt"), Version: rapid.Uint64().Draw(t, "version"),
		CreatedAt: at("created"), LeaseExpiresAt: at("lease"), SettledAt: at("settled"), ExpiresAt: at("expires"), RetainedUntil: at("retained"),
		HasResponse: rapid.Bool().Draw(t, "has"), ResponseOmitted: rapid.Bool().Draw(t, "omitted"), Redacted: rapid.SliceOfN(someText, 0, 3).Draw(t, "redacted"),
		ErrorCode: text("errorCode"), Replays: rapid.Uint64().Draw(t, "replays"), LastReplayedAt: at("replayed"), CorrelationID: text("correlation"),
	}
	if rapid.Bool().Draw(t, "there is a response") {
		r.Response = []byte(someJSON.Draw(t, "response"))
	}
	if rapid.Bool().Draw(t, "previous") {
		r.Previous = &fsm.PreviousAttempt{Attempt: rapid.Uint32().Draw(t, "n"), Ended: text("ended"), ClaimedAt: at("claimed"), LeaseExpiresAt: at("lease"), CorrelationID: text("c")}
	}
	return r
})

// TestWritten: what writes itself is, byte for byte, what the library makes of
// the API's types; and what the one cannot write, the other cannot either.
func TestWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, now := someRecord.Draw(t, "record"), someTime.Draw(t, "now")
		res := &fsm.Result{
			Outcome: fsm.Outcome(rapid.Int32Range(1, 8).Draw(t, "outcome")), Record: r,
			Resumed:        rapid.Bool().Draw(t, "resumed"),
			LeaseRemaining: time.Duration(rapid.Int64().Draw(t, "remaining")),
		}
		view := viewOf(r, now, rapid.Bool().Draw(t, "secret"))
		agree(t, &view, oracleRecord(r, now, view.secret))
		a := &answer{outcome: someText.Draw(t, "outcome"), res: res, view: view}
		agree(t, a, oracleAnswer(a, now))
		page := &recordPage{records: []recordView{view, view}[:rapid.IntRange(0, 2).Draw(t, "page")], next: someText.Draw(t, "next")}
		list := &idem.RecordList{Records: []idem.Record{}, NextCursor: page.next}
		for range page.records {
			list.Records = append(list.Records, *oracleRecord(r, now, view.secret))
		}
		agree(t, page, list)

		code := rapid.SampledFrom(slices.Sorted(maps.Keys(codes))).Draw(t, "code")
		p := &problem{
			detail: someText.Draw(t, "detail"), applied: idem.Applied(someText.Draw(t, "applied")), key: someText.Draw(t, "key"), operation: someText.Draw(t, "operation"),
			attemptID: someText.Draw(t, "attemptId"), verdict: someText.Draw(t, "verdict"), correlationID: someText.Draw(t, "correlation"),
		}
		if rapid.Bool().Draw(t, "with a record") {
			status, _ := viewStatus(r, now)
			p.record = problemRecord{rec: r, status: status, outcome: rapid.Bool().Draw(t, "with the outcome")}
		}
		newProblem(p, code, time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "retry after")))
		agree(t, p, oracleOfProblem(p))
		b := &batchAnswer{[]batchResult{{200, a}, {400, p}}}
		agree(t, b, &oracleBatch{[]oracleResult{{200, oracleAnswer(a, now)}, {400, oracleOfProblem(p)}}})
	})
}

type oracleResult struct {
	Status int `json:"status"`
	Body   any `json:"body"`
}

type oracleBatch struct {
	Results []oracleResult `json:"results"`
}

func agree(t *rapid.T, w written, oracle any) {
	t.Helper()
	var e encoder
	w.write(&e)
	want, err := json.Marshal(oracle, wire)
	if (err == nil) != (e.err == nil) {
		t.Fatalf("%v by hand, %v by the library\n%s\n%s", e.err, err, e.b, want)
	}
	if err == nil && string(e.b) != string(want) {
		t.Fatalf("by hand\n%s\nby the library\n%s", e.b, want)
	}
}
