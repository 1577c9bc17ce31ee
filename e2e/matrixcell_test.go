package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onced/onced/idem"
)

// statuses is the HTTP status of everything a cell may say.
var statuses = map[string]int{
	"granted": 201, "granted+1": 201, "resumed": 201, "replayed": 200, "ok": 200,
	"expired": 410, "conflict": 422, "in_flight": 409, "uncertain": 409, "cancelled": 409, "attempt_spent": 409,
	"duplicate": 409, "not_found": 404, "stale_token": 409, "already_settled": 409, "token_missing": 400, "stale_version": 412,
}

// outcomes is what "ok" is called.
var outcomes = map[string]string{
	"commit": "committed", "fail": "failed", "release": "released", "extend": "extended", "cancel": "cancelled", "resolve": "resolved",
}

// ask asks a cell: the answer, and the record before and after.
func (c *cell) ask(t *testing.T) {
	before := c.record((c.way + 1) % 3)
	if !viewed(c.state, before) {
		t.Errorf("%s: not in its state before: %s", c, show(before))
		return
	}
	m := c.call(c.subject)
	a := c.send(c.way, m)
	after := c.record((c.way + 2) % 3)
	var faults, shaky []string
	c.shaky = func(format string, args ...any) { shaky = append(shaky, fmt.Sprintf(format, args...)) }
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	want := c.want
	if want == "replayed" && c.profile.reject {
		want = "duplicate"
	}
	said := a.says()
	switch {
	case a.Outcome == "reserved" && a.Resumed != nil && *a.Resumed:
		said = "resumed"
	case a.Outcome == "reserved" && a.Attempt > 1:
		said = "granted+1"
	case a.Outcome == "reserved":
		said = "granted"
	case a.Outcome != "" && a.Outcome == outcomes[m["op"].(string)]:
		said = "ok"
	}
	if said == "resumed" && strings.HasPrefix(want, "granted") {
		c.shaky("want %s", want) // its own grant, whose answer was lost with the leader
	} else if said != want || a.status != statuses[want] {
		fault("want %d %s", statuses[want], want)
	} else {
		if a.Code != "" {
			c.checkProblem(a, before, fault)
		} else {
			c.checkAnswer(a, m, before, fault)
		}
		if c.way != 3 {
			c.checkHeaders(a, fault)
		}
		if c.next == "" {
			if d := cmp.Diff(settled(before), settled(after)); d != "" {
				fault("the record was touched:\n%s", d)
			}
		} else {
			c.checkNext(a, m, before, after, fault)
			c.checkRepeat(m, after, a, fault)
		}
	}
	report := func(faults []string) string {
		return fmt.Sprintf("%s\n%s %s\nanswered %s\nbefore %s\nafter  %s\n- %s", c, m["op"], toJSON(without(m, "op")), a, show(before), show(after),
			strings.Join(faults, "\n- "))
	}
	if len(faults) > 0 {
		t.Error(report(faults))
	}
	if len(shaky) > 0 {
		c.unsteady(report(shaky))
	}
}

func show(r *idem.Record) string { return toJSON(r) }

// settled is r without what counted replays change, which come in on their own.
func settled(r *idem.Record) *idem.Record {
	if r == nil {
		return nil
	}
	n := *r
	n.Replays, n.LastReplayedAt = 0, ""
	return &n
}

type faulter func(format string, args ...any)

// checkProblem holds a refusal against api.md: what it says and what it must
// not show.
func (c *cell) checkProblem(a *answer, before *idem.Record, fault faulter) {
	said := a.says()
	if a.Status != a.status || a.Title == "" || a.Detail == "" || a.CorrelationID == "" || !strings.HasSuffix(a.Type, a.Code) {
		fault("not a whole problem")
	}
	if want := said == "in_flight"; a.Retryable != want {
		fault("retryable %v, want %v", a.Retryable, want)
	}
	if want := said == "cancelled" && c.state != "K"; a.SafeNewKey != want { // K was claimed once
		fault("safeNewKey %v, want %v", a.SafeNewKey, want)
	}
	if a.Key != c.key {
		fault("key %q, want %q", a.Key, c.key)
	}
	if said == "in_flight" && (a.RetryAfterMs < 1 || a.RetryAfterMs > 120_000) {
		fault("retryAfterMs %d of a lease of 2m", a.RetryAfterMs)
	}
	if (said == "expired" && c.state == "E") != (a.Verdict != "") {
		fault("verdict %q", a.Verdict)
	}
	if a.AttemptID != "" || strings.Contains(string(a.raw), c.token+`"`) && c.token != "77" {
		fault("a problem shows an attemptId or a token")
	}
	r := a.Record
	switch {
	case said == "conflict" || said == "not_found" || said == "token_missing" || before == nil:
		if r != nil {
			fault("the problem shows a record")
		}
		return
	case r == nil:
		fault("the problem shows no record")
		return
	}
	if r.Status != before.Status || r.Version != before.Version || r.Attempt != before.Attempt ||
		r.CreatedAt != before.CreatedAt || r.LeaseExpiresAt != before.LeaseExpiresAt || r.ExpiresAt != before.ExpiresAt {
		fault("the problem's record is not the stored one")
	}
	shows := said == "already_settled"
	if shows && c.state == "S" != (len(r.Response) > 0) || !shows && len(r.Response) > 0 {
		fault("response %q in the problem", r.Response)
	}
	if shows && (r.ErrorCode != before.ErrorCode || r.SettledAt != before.SettledAt) {
		fault("already_settled without the outcome")
	}
	if said == "stale_version" && (!strings.Contains(a.Detail, "99") || !strings.Contains(a.Detail, strconv.FormatUint(before.Version, 10))) {
		fault("detail does not name both versions")
	}
}

// checkAnswer holds a success against api.md.
func (c *cell) checkAnswer(a *answer, m map[string]any, before *idem.Record, fault faulter) {
	r := a.Record
	if r == nil || r.Key != c.key || r.Namespace != c.ns {
		fault("no record of this key")
		return
	}
	holder := a.Outcome != "replayed" && a.Outcome != "cancelled" && a.Outcome != "resolved"
	if holder != (r.Token != "") || holder != (r.AttemptID != "") {
		fault("attemptId and token are the holder's: shown %v", r.Token != "")
	}
	switch a.Outcome {
	case "reserved":
		resumed := a.Resumed != nil && *a.Resumed
		if a.Resumed == nil || a.Token == "" || a.AttemptID != m["attemptId"] || a.LeaseRemaining != "5m0s" && a.LeaseRemaining != "5m" {
			fault("not a whole grant: token %q, attemptId %q, leaseRemaining %q", a.Token, a.AttemptID, a.LeaseRemaining)
		}
		if resumed != (a.Token == c.token) {
			fault("token %s, that of the last claim is %s", a.Token, c.token)
		}
		if !resumed {
			wantAttempt, ended := uint32(1), map[string]string{"L": "lapsed", "X": "expired", "R": "released"}[c.state]
			if before != nil {
				wantAttempt = before.Attempt + 1
			}
			if a.Attempt != wantAttempt || (ended == "") != (a.PreviousAttempt == nil) {
				fault("attempt %d, want %d; previousAttempt %v", a.Attempt, wantAttempt, a.PreviousAttempt)
			} else if p := a.PreviousAttempt; p != nil && (p.Ended != ended || p.Attempt != before.Attempt || p.ClaimedAt == "" || p.LeaseExpiresAt == "") {
				fault("previousAttempt %+v, want ended %s", *p, ended)
			}
			if before != nil && !later(a.Token, before.Token) {
				fault("token %s does not rise over %s", a.Token, before.Token)
			}
		}
	case "replayed":
		want := *settled(before)
		want.Token, want.AttemptID = "", ""
		if d := cmp.Diff(&want, settled(r)); d != "" {
			fault("the replay is not the record:\n%s", d)
		}
	}
	if (c.state == "E" || c.state == "X") && c.next == "" && len(r.Response) > 0 {
		fault("bytes of an expired outcome")
	}
}

func later(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

func (c *cell) checkHeaders(a *answer, fault faulter) {
	h := a.header
	want := map[string]string{"Cache-Control": "no-store", "Onced-Node": "n" + strconv.Itoa(c.way+1), "Idempotency-Key": c.key}
	for name, v := range want {
		if h.Get(name) != v {
			fault("%s: %q, want %q", name, h.Get(name), v)
		}
	}
	decided := a.says() != "token_missing"
	for name, there := range map[string]bool{
		"Onced-Time": decided, "Onced-Index": decided, "X-Correlation-Id": true,
		"Retry-After": a.says() == "in_flight", "Idempotent-Replayed": a.Code == "",
		"Idempotency-Expires": a.Code == "" && a.Record != nil && (a.Record.Status == "committed" || a.Record.Status == "failed" || a.Record.Status == "expired"),
	} {
		if there != (h.Get(name) != "") {
			fault("header %s: %q", name, h.Get(name))
		}
	}
	if h.Get("Onced-Leader") == "" {
		c.shaky("header Onced-Leader is not there")
	}
	if replayed := h.Get("Idempotent-Replayed"); a.Code == "" && (replayed == "true") != (c.next == "") {
		c.shaky("Idempotent-Replayed: %s", replayed)
	}
	if a.Code != "" && h.Get("Content-Type") != "application/problem+json" || h.Get("Location") != "" {
		fault("a problem as %s", h.Get("Content-Type"))
	}
}

// checkNext holds the changed record against the state that the cell names.
func (c *cell) checkNext(a *answer, m map[string]any, before, after *idem.Record, fault faulter) {
	if !viewed(c.next, after) {
		fault("not in state %s afterwards", c.next)
		return
	}
	shown := *a.Record
	shown.AttemptID, shown.Token = after.AttemptID, after.Token
	if d := cmp.Diff(after, &shown); d != "" {
		fault("the answer is not the stored record:\n%s", d)
	}
	version := uint64(1)
	if before != nil {
		version = before.Version + 1
		if c.state != "X" && after.CreatedAt != before.CreatedAt {
			fault("createdAt moved from %s to %s", before.CreatedAt, after.CreatedAt)
		}
	}
	if after.Version == version+1 && (a.Outcome == "extended" || c.want == "resumed") {
		c.shaky("version %d, want %d", after.Version, version) // renewed twice: the first was lost with its leader
	} else if after.Version != version {
		fault("version %d, want %d", after.Version, version)
	}
	if c.next == "P" && c.want != "granted" && before.LeaseExpiresAt != "" && after.LeaseExpiresAt <= before.LeaseExpiresAt {
		fault("lease not later: %s, was %s", after.LeaseExpiresAt, before.LeaseExpiresAt)
	}
	if c.next == "S" {
		gives := m["response"] != nil
		if shown := strings.Contains(string(after.Response), "s3cr3t"); gives && shown == c.profile.redacted {
			fault("redact is %v, response %s", c.profile.redacted, after.Response)
		}
		if redacted := len(after.Redacted) > 0; redacted != (gives && c.profile.redacted) {
			fault("redacted %v", after.Redacted)
		}
		if gives != (len(after.Response) > 0) {
			fault("response %s", after.Response)
		}
	}
}

// checkRepeat sends the same call again through the next node: a lost answer
// must be harmless.
func (c *cell) checkRepeat(m map[string]any, after *idem.Record, first *answer, fault faulter) {
	a := c.send((c.way+1)%3, m)
	switch {
	case a.status != first.status || a.Outcome != first.Outcome:
		fault("the same call again answered %s", a)
	case first.Outcome == "reserved" && (a.Token != first.Token || !*a.Resumed || a.Attempt != first.Attempt):
		fault("the same attempt again got another grant: %s", a)
	case first.Outcome == "reserved" || first.Outcome == "extended": // the lease is renewed
	default:
		if d := cmp.Diff(after, c.record(c.way%3)); d != "" {
			fault("the same call again touched the record:\n%s", d)
		}
	}
}
