package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"
)

// Findings are what the checks of a history came to. Reasons are sentences, one
// for each thing that is wrong, the first of many of a kind.
type Findings struct {
	Operations       int
	Keys             int
	DoubleGrants     int
	LostOutcomes     int
	DifferingReplays int
	Linearizable     bool // as far as it is decided
	Undecided        int  // keys that the check had not the time for
	Reasons          []string

	// The keys whose calls no order was found for, for the picture.
	Unexplained [][]*Op
}

// longKept is the ttl, in milliseconds, from which on nothing of a namespace
// expires within a run.
const longKept = 3600_000

func (f *Findings) wrong(count *int, format string, args ...any) {
	if count != nil {
		*count++
	}
	switch n := len(f.Reasons); {
	case n < 40:
		s := fmt.Sprintf(format, args...)
		if len(s) > 600 {
			s = s[:600] + "..."
		}
		f.Reasons = append(f.Reasons, s)
	case n == 40:
		f.Reasons = append(f.Reasons, "and more")
	}
}

// Check holds a history, and the exchange's book of fills, against the
// contract. It ends within the limits, or soon after ctx.
func Check(ctx context.Context, ops []*Op, fills []Fill, l Limits) *Findings {
	f := &Findings{Operations: len(ops), Linearizable: true}
	parts := partition(spread(ops))
	f.Keys = len(parts)
	f.checkLinear(ctx, parts, l)
	f.checkPrints(ops)
	f.checkOrder(ops)
	f.checkLog(ops)
	f.checkReplays(parts)
	f.checkGrants(parts)
	f.checkFills(parts, fills)
	return f
}

// checkOrder holds the order of the log, over all keys, against real time: what
// began after an answer was there is decided behind it.
func (f *Findings) checkOrder(ops []*Op) {
	var began []*Op
	for _, o := range ops {
		if o.Fate == Known && o.Answer.Index > 0 && !o.Answer.Local {
			began = append(began, o)
		}
	}
	ended := append([]*Op(nil), began...)
	sort.SliceStable(began, func(i, j int) bool { return began[i].Call < began[j].Call })
	sort.SliceStable(ended, func(i, j int) bool { return ended[i].Return < ended[j].Return })
	var last *Op // the furthest on in the log that had ended
	for _, o := range began {
		for len(ended) > 0 && ended[0].Return < o.Call {
			if last == nil || ended[0].Answer.Index > last.Answer.Index {
				last = ended[0]
			}
			ended = ended[1:]
		}
		// A read may be as fresh as the last entry, and no fresher.
		if last != nil && (o.Answer.Index < last.Answer.Index || o.Kind != Get && o.Answer.Index == last.Answer.Index) {
			f.Linearizable = false
			f.wrong(nil, "call %d on %s/%s was decided at index %d, but call %d on %s/%s, which had ended before, at index %d", o.ID, o.NS, o.Key, o.Answer.Index, last.ID, last.NS, last.Key, last.Answer.Index)
		}
	}
}

// checkLog holds what all keys share: log time never falls along the log, and
// tokens rise along it.
func (f *Findings) checkLog(ops []*Op) {
	var log []*Op
	for _, o := range ops {
		if o.Fate == Known && o.Answer.Index > 0 && o.Kind != Get && !o.Answer.Local {
			log = append(log, o)
		}
	}
	sort.SliceStable(log, func(i, j int) bool { return log[i].Answer.Index < log[j].Answer.Index })
	owner := map[string]*Op{} // of each token
	highest, highestBefore := "", ""
	for i, o := range log {
		if i > 0 {
			before := log[i-1]
			if o.Answer.Time < before.Answer.Time {
				f.Linearizable = false
				f.wrong(nil, "time fell along the log: %d at index %d, %d at index %d", before.Answer.Time, before.Answer.Index, o.Answer.Time, o.Answer.Index)
			}
			if o.Answer.Index != before.Answer.Index {
				highestBefore = highest
			}
		}
		if !o.grants() || o.Answer.Resumed {
			continue
		}
		token := o.Answer.Token
		if other, ok := owner[token]; ok {
			f.wrong(&f.DoubleGrants, "token %s was granted twice: to call %d on %s/%s and call %d on %s/%s", token, other.ID, other.NS, other.Key, o.ID, o.NS, o.Key)
		}
		owner[token] = o
		if highestBefore != "" && !tokenLess(highestBefore, token) {
			f.Linearizable = false
			f.wrong(nil, "tokens fell along the log: %s at index %d, after %s", token, o.Answer.Index, highestBefore)
		}
		if tokenLess(highest, token) {
			highest = token
		}
	}
}

// checkReplays compares every showing of one outcome, byte for byte, and finds
// acknowledged outcomes that a later call was not shown.
func (f *Findings) checkReplays(parts [][]*Op) {
	for _, part := range parts {
		p := policyOf(part[0].NS)
		texts := map[[2]int64]*Op{} // by version: a settled record is never changed
		var acked *Op               // the first to be told an outcome
		for _, o := range part {
			if o.Fate != Known || !o.Answer.Record.settled() || o.Answer.Record.Text == "" {
				continue
			}
			r := o.Answer.Record
			which := [2]int64{int64(r.Version)}
			if p.TTL < longKept { // may have been removed, and begun again at version 1
				which[1] = r.Settled
			}
			if first, ok := texts[which]; !ok {
				texts[which] = o
			} else if first.Answer.Record.Text != r.Text {
				f.wrong(&f.DifferingReplays, "%s/%s: call %d was shown %s, call %d %s", o.NS, o.Key, first.ID, first.Answer.Record.Text, o.ID, r.Text)
			}
			if acked == nil || o.Return < acked.Return {
				acked = o
			}
		}
		if acked != nil && !p.RerunExpired && p.TTL >= longKept {
			f.checkKept(part, acked)
		}
	}
}

// checkKept holds that what began after an outcome was acknowledged was shown
// that outcome, where it cannot expire within the run.
func (f *Findings) checkKept(part []*Op, acked *Op) {
	for _, o := range part {
		if o.Fate != Known || o.Call < acked.Return || o.Kind != Reserve && o.Kind != Get {
			continue
		}
		if r := o.Answer.Record; o.Answer.Says == "conflict" || r.settled() && (r.Text == "" || r.Text == acked.Answer.Record.Text) {
			continue
		} else if r.settled() {
			if r.Version != acked.Answer.Record.Version { // else compared already
				f.wrong(&f.DifferingReplays, "%s/%s: acknowledged to call %d as %s, shown to call %d as %s", o.NS, o.Key, acked.ID, acked.Answer.Record.Text, o.ID, r.Text)
			}
			continue
		}
		f.wrong(&f.LostOutcomes, "%s/%s: call %d was told an outcome, and call %d after it: %s", o.NS, o.Key, acked.ID, o.ID, o)
	}
}

// checkGrants finds attempts that two were granted: the number of an attempt
// names one claim of a key, for as long as the key is not removed.
func (f *Findings) checkGrants(parts [][]*Op) {
	for _, part := range parts {
		p := policyOf(part[0].NS)
		if p.TTL < longKept {
			continue // may be removed within the run and begin again at 1
		}
		byAttempt := map[uint32]*Op{}
		for _, o := range part {
			if !o.grants() || o.Answer.Record == nil {
				continue
			}
			n := o.Answer.Record.Attempt
			if first, ok := byAttempt[n]; ok && (first.AttemptID != o.AttemptID || first.Answer.Token != o.Answer.Token) {
				f.wrong(&f.DoubleGrants, "%s/%s: attempt %d was granted to call %d and to call %d", o.NS, o.Key, n, first.ID, o.ID)
			}
			byAttempt[n] = o
		}
	}
}

// checkFills holds the exchange's book against the history: an order is filled
// once at most, and an acknowledged commit is of exactly one fill.
func (f *Findings) checkFills(parts [][]*Op, fills []Fill) {
	byKey := map[string][]Fill{}
	for _, x := range fills {
		byKey[x.NS+"/"+x.Key] = append(byKey[x.NS+"/"+x.Key], x)
	}
	for key, list := range byKey {
		if len(list) > 1 {
			f.wrong(&f.DoubleGrants, "%s was filled %d times: by %s and %s", key, len(list), list[0].Attempt, list[1].Attempt)
		}
	}
	for _, part := range parts {
		if part[0].NS != "orders" {
			continue
		}
		list := byKey[part[0].NS+"/"+part[0].Key]
		for _, o := range part {
			if o.Fate != Known || !o.Answer.Record.settled() || o.Answer.Record.Status != "committed" {
				continue
			}
			if len(list) == 0 {
				f.wrong(&f.LostOutcomes, "%s/%s: committed in call %d, but never filled", o.NS, o.Key, o.ID)
			} else if o.Answer.Record.Response != "" && o.Answer.Record.Response != filled(list[0]) {
				f.wrong(&f.DifferingReplays, "%s/%s: call %d was shown %s, the exchange has %s", o.NS, o.Key, o.ID, o.Answer.Record.Response, filled(list[0]))
			}
			break
		}
	}
}

// CheckAgain checks the history and the book that a run has left in dir. Faults,
// states and the gap between writes are not in them. The error is a directory
// that cannot be read, or ErrInterrupted.
func CheckAgain(ctx context.Context, dir string, l Limits) (*Report, error) {
	ops, err := ReadHistory(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return nil, err
	}
	fills, err := ReadLedger(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		return nil, err
	}
	f := Check(ctx, ops, fills, l)
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	r := &Report{Linearizable: "no"}
	r.take(f)
	r.conclude()
	if len(f.Unexplained) > 0 {
		err = draw(ctx, filepath.Join(dir, "linearizability.html"), f.Unexplained[0])
	}
	return r, err
}
