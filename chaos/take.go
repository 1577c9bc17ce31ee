package chaos

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// take fills in what became of o.
func (o *Op) take(status int, header http.Header, body []byte, err error) {
	if err != nil {
		o.Fate, o.Cause = Unknown, err.Error()
		return
	}
	a := &Answer{Status: status}
	var p idem.Problem
	switch {
	case status >= 400:
		if json.Unmarshal(body, &p) != nil || p.Code == "" {
			o.Fate, o.Cause = Unknown, "answered "+strconv.Itoa(status)+" "+string(body)
			return
		}
		a.Says = strings.TrimPrefix(strings.TrimPrefix(string(p.Code), "idempotency_"), "key_")
		if p.Applied == idem.AppliedNo || p.Applied == idem.AppliedUnknown {
			o.Fate, o.Cause = Unknown, string(p.Code)+": "+p.Detail
			if p.Applied == idem.AppliedNo {
				o.Fate = Nothing
			}
			return
		}
		a.Verdict = p.Verdict
		a.Record = see(p.Record, nil)
	case o.Kind == Get:
		r := new(idem.Record)
		if err := json.Unmarshal(body, r); err != nil {
			o.Fate, o.Cause = Unknown, err.Error()
			return
		}
		a.Says, a.Record = "ok", see(r, body)
	default:
		if err := a.read(body); err != nil {
			o.Fate, o.Cause = Unknown, err.Error()
			return
		}
	}
	a.Index, _ = strconv.ParseUint(header.Get("Onced-Index"), 10, 64)
	a.Time = parseTime(header.Get("Onced-Time"))
	a.Local = a.Says == "replayed" || a.Says == "duplicate"
	o.Fate, o.Answer = Known, a
	if o.Fingerprint != "" {
		if o.Key = p.Key; a.Record != nil && a.Record.Key != "" {
			o.Key = a.Record.Key
		}
	}
	if a.Record != nil {
		a.Record.Key = ""
	}
}

// read takes the answer of a data-plane call apart.
func (a *Answer) read(body []byte) error {
	var raw struct {
		idem.Answer
		Record jsontext.Value `json:"record"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return err
	}
	a.Says, a.Token, a.AttemptID = raw.Outcome, raw.Token, raw.AttemptID
	a.Resumed = raw.Resumed != nil && *raw.Resumed
	if p := raw.PreviousAttempt; p != nil {
		a.Ended = p.Ended
	}
	r := new(idem.Record)
	if err := json.Unmarshal(raw.Record, r); err != nil {
		return err
	}
	a.Record = see(r, raw.Record)
	return nil
}

// see keeps of a record what the checks compare; text is the record as it was
// sent, nil when only a part of it was.
func see(r *idem.Record, text []byte) *Seen {
	if r == nil {
		return nil
	}
	s := &Seen{
		Key: r.Key, Status: r.Status, Attempt: r.Attempt, Version: r.Version,
		Lease: parseTime(r.LeaseExpiresAt), Settled: parseTime(r.SettledAt),
		Expires: parseTime(r.ExpiresAt), Retained: parseTime(r.RetainedUntil),
		ErrorCode: r.ErrorCode, Response: string(r.Response), Token: r.Token, AttemptID: r.AttemptID,
	}
	if text != nil && s.settled() {
		s.Text = invariant(text)
	}
	return s
}

// invariant gives a settled record without what may differ between two replays
// of it: how often it was replayed, and what only its holder is shown.
func invariant(text []byte) string {
	var members map[string]jsontext.Value
	if json.Unmarshal(text, &members) != nil {
		return string(text)
	}
	for _, name := range []string{"replays", "lastReplayedAt", "attemptId", "token"} {
		delete(members, name)
	}
	b, err := json.Marshal(members, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return string(text)
	}
	return string(b)
}

// parseTime gives a time of the API in milliseconds, 0 for none.
func parseTime(s string) int64 {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
