package chaos

import (
	"fmt"
	"strings"
)

// The kinds of Op.
const (
	Reserve = "reserve"
	Commit  = "commit"
	Fail    = "fail"
	Release = "release"
	Extend  = "extend"
	Cancel  = "cancel"
	Resolve = "resolve"
	Get     = "get" // a strong read
)

// Fate is what the caller knows of a call.
type Fate string

const (
	// Known: there was an answer that says what was decided.
	Known Fate = "known"
	// Unknown: no answer, or one that says applied "unknown". The call may have
	// been applied, at any time from its beginning on.
	Unknown Fate = "unknown"
	// Nothing: the answer promises that nothing was and will be applied.
	Nothing Fate = "nothing"
)

// Op is one call on one key as a client saw it: a line of the history. Times
// are nanoseconds since the start of the run, durations milliseconds.
type Op struct {
	ID     int    `json:"id"`
	Client int    `json:"client"`
	Node   string `json:"node"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"` // when the client stopped listening, whatever the fate

	NS              string `json:"ns"`
	Key             string `json:"key"`
	Fingerprint     string `json:"fingerprint,omitempty"` // the symbol of a trade; Key is then what the answer names
	Kind            string `json:"kind"`
	Request         string `json:"request,omitempty"` // the request and the operation, as one name
	AttemptID       string `json:"attemptId,omitempty"`
	Token           string `json:"token,omitempty"`
	Lease           int64  `json:"lease,omitempty"` // 0: the namespace's
	TTL             int64  `json:"ttl,omitempty"`   // 0: the namespace's
	Wait            int64  `json:"wait,omitempty"`
	Verdict         string `json:"verdict,omitempty"` // commit, fail, resolve: committed, failed, not_applied
	ErrorCode       string `json:"errorCode,omitempty"`
	Response        string `json:"response,omitempty"` // JSON; "" is none
	ExpectedVersion uint64 `json:"expectedVersion,omitempty"`
	Batch           int    `json:"batch,omitempty"` // calls of one batch share a number above 0

	Fate   Fate    `json:"fate"`
	Answer *Answer `json:"answer,omitempty"` // with fate known
	Cause  string  `json:"cause,omitempty"`  // with the others
}

// Answer is what a decided call was told.
type Answer struct {
	Says   string `json:"says"` // the outcome, or the code without idempotency_ and key_
	Status int    `json:"status"`
	Index  uint64 `json:"index,omitempty"`
	Time   int64  `json:"time,omitempty"` // deciding log time, in milliseconds

	Token     string `json:"token,omitempty"`
	AttemptID string `json:"attemptId,omitempty"`
	Resumed   bool   `json:"resumed,omitempty"`
	Ended     string `json:"ended,omitempty"` // how the previous attempt ended
	Verdict   string `json:"verdict,omitempty"`
	Local     bool   `json:"local,omitempty"` // may come from a node's memory

	Record *Seen `json:"record,omitempty"`
}

// Seen is a record as an answer showed it; times in milliseconds, 0 for none.
type Seen struct {
	Key       string `json:"key,omitempty"` // only where a call named none
	Status    string `json:"status"`
	Attempt   uint32 `json:"attempt"`
	Version   uint64 `json:"version"`
	Lease     int64  `json:"lease,omitempty"` // when it ends
	Settled   int64  `json:"settled,omitempty"`
	Expires   int64  `json:"expires,omitempty"`
	Retained  int64  `json:"retained,omitempty"`
	ErrorCode string `json:"errorCode,omitempty"`
	Response  string `json:"response,omitempty"`
	Token     string `json:"token,omitempty"`
	AttemptID string `json:"attemptId,omitempty"`
	// Text is the whole record as it was sent, without what counts replays and
	// what only the holder sees: equal on every replay of one outcome.
	Text string `json:"text,omitempty"`
}

// outcome is what "the same outcome" compares.
func outcome(verdict, errorCode, response string) string {
	return verdict + "\x1f" + errorCode + "\x1f" + response
}

func (o *Op) outcome() string { return outcome(o.Verdict, o.ErrorCode, o.Response) }

func (s *Seen) outcome() string { return outcome(s.Status, s.ErrorCode, s.Response) }

// settled tells whether the record shows an outcome with its bytes.
func (s *Seen) settled() bool { return s != nil && (s.Status == "committed" || s.Status == "failed") }

// acknowledged tells whether o was told that it wrote, or had written, something.
func (o *Op) acknowledged() bool {
	if o.Fate != Known || o.Kind == Get {
		return false
	}
	switch o.Answer.Says {
	case "reserved", "committed", "failed", "released", "extended", "cancelled", "resolved":
		return o.Answer.Status < 300
	}
	return false
}

// grants tells whether o was given a claim, a resumed one too.
func (o *Op) grants() bool { return o.Fate == Known && o.Kind == Reserve && o.Answer.Status == 201 }

// String shows o on one line, as the picture of a failing history does.
func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", o.Node, o.Kind)
	for _, p := range []struct{ name, value string }{
		{"req", o.Request},
		{"attempt", tail(o.AttemptID)},
		{"token", o.Token},
		{"verdict", o.Verdict},
		{"response", o.Response},
		{"error", o.ErrorCode},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, " %s=%s", p.name, p.value)
		}
	}
	for _, p := range []struct {
		name  string
		value int64
	}{{"lease", o.Lease}, {"ttl", o.TTL}, {"wait", o.Wait}, {"if", int64(o.ExpectedVersion)}} {
		if p.value != 0 {
			fmt.Fprintf(&b, " %s=%d", p.name, p.value)
		}
	}
	b.WriteString(" -> ")
	if o.Fate != Known {
		b.WriteString(string(o.Fate))
		return b.String()
	}
	a := o.Answer
	fmt.Fprintf(&b, "%d %s @%d #%d", a.Status, a.Says, a.Time, a.Index)
	if a.Resumed {
		b.WriteString(" resumed")
	}
	if a.Token != "" {
		b.WriteString(" token=" + a.Token)
	}
	if r := a.Record; r != nil {
		fmt.Fprintf(&b, " {%s a%d v%d lease=%d expires=%d %s}", r.Status, r.Attempt, r.Version, r.Lease, r.Expires, r.Response)
	}
	return b.String()
}

func tail(s string) string { return s[max(0, len(s)-6):] }
