package chaos

import (
	"fmt"
	"sort"
)

// step gives the states that s may be in after o was answered as it was; none
// when the contract has no such answer.
func (s state) step(o *Op, p *Policy, birth int64) (out []state) {
	a := o.Answer
	if a.Time < s.now {
		return nil // time fell
	}
	for _, d := range s.decide(o, at(a.Time), p, birth) {
		if n, ok := d.matches(o); ok {
			out = append(out, n)
		}
	}
	return out
}

// remembered tells whether a node's own memory may have answered: an outcome
// that can never be superseded, at the time that the node takes it to be, which
// may be behind (semantics.md section 7).
func (s state) remembered(o *Op, p *Policy, birth int64) bool {
	for _, m := range s.memories() {
		for _, d := range m.decide(o, at(o.Answer.Time), p, birth) {
			if d.col != colS {
				continue
			}
			if _, ok := d.matches(o); ok {
				return true
			}
		}
	}
	return false
}

// matches tells whether d is what o was answered, and gives the state with what
// the answer has made known.
func (d decided) matches(o *Op) (state, bool) {
	a := o.Answer
	n := d.s
	if a.Says != d.says || a.Resumed != d.resumed {
		return n, false
	}
	if d.grant {
		if a.AttemptID != o.AttemptID || a.Ended != n.ended {
			return n, false
		}
		if !n.learnToken(a.Token, !d.resumed) {
			return n, false
		}
	}
	if !d.shows || a.Record == nil {
		return n, d.shows == (a.Record != nil)
	}
	return n, n.learn(a.Record, d.status())
}

func (d decided) status() string {
	switch d.s.phase {
	case pending:
		if d.col == colU || d.col == colL {
			if d.grant || d.says == "extended" {
				return "pending" // renewed or claimed
			}
			return "uncertain"
		}
		return "pending"
	case settled:
		if d.col == colE || d.col == colX {
			return "expired"
		}
		return d.s.verdict()
	case released:
		return "released"
	case cancelled:
		return "cancelled"
	}
	return ""
}

func (s *state) verdict() string {
	for i := range s.outcome {
		if s.outcome[i] == '\x1f' {
			return s.outcome[:i]
		}
	}
	return s.outcome
}

// learnToken binds the token of the latest claim. A new claim's token is above
// every one seen on the key.
func (s *state) learnToken(token string, fresh bool) bool {
	if token == "" {
		return false
	}
	if s.token == "" {
		if fresh || s.maxToken != "" {
			if !tokenLess(s.maxToken, token) {
				return false
			}
		}
		s.token = token
		s.maxToken = token
		return true
	}
	return s.token == token
}

// learn holds a record against s and narrows s to it.
func (s *state) learn(r *Seen, status string) bool {
	if r.Status != status || r.Attempt != s.attempt || r.Version != s.version {
		return false
	}
	if r.Token != "" && (!s.claimed || !s.learnToken(r.Token, false)) {
		return false
	}
	if r.AttemptID != "" && r.AttemptID != s.attemptID {
		return false
	}
	pin := func(known *span, shown int64) bool {
		if shown == 0 {
			return true
		}
		if !known.has(shown) {
			return false
		}
		*known = at(shown)
		return true
	}
	if s.phase == pending {
		return pin(&s.lease, r.Lease)
	}
	if !pin(&s.expires, r.Expires) || !pin(&s.retained, r.Retained) {
		return false
	}
	// Problems show the outcome with already_settled alone.
	if r.settled() && (r.Response != "" || r.ErrorCode != "" || r.Settled != 0) {
		return r.outcome() == s.outcome
	}
	return true
}

// String shows s in the picture of a failing history.
func (s state) String() string {
	switch s.phase {
	case absent:
		if s.gone {
			return "gone"
		}
		return "absent"
	case pending:
		return fmt.Sprintf("pending a%d v%d %s lease=%v token=%s", s.attempt, s.version, tail(s.attemptID), s.lease, s.token)
	case settled:
		return fmt.Sprintf("%s a%d v%d expires=%v token=%s", s.outcome, s.attempt, s.version, s.expires, s.token)
	case released:
		return fmt.Sprintf("released a%d v%d %s until %v", s.attempt, s.version, tail(s.attemptID), s.expires)
	}
	return fmt.Sprintf("cancelled v%d claimed=%v", s.version, s.claimed)
}

// partition splits a history by namespace and key, in a fixed order.
func partition(ops []*Op) [][]*Op {
	byKey := map[string][]*Op{}
	var keys []string
	for _, o := range ops {
		k := o.NS + "/" + o.Key
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], o)
	}
	sort.Strings(keys)
	out := make([][]*Op, len(keys))
	for i, k := range keys {
		out[i] = byKey[k]
	}
	return out
}
