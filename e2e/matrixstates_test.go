package e2e

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onced/onced/idem"
)

// subject is one key in one state of the matrix, on its way through one cell.
type subject struct {
	nodes   *nodes
	ns, key string
	state   string
	verdict string // commit or fail: how it was settled, where it was
	token   string // of its latest claim; of nobody where it has none
	attempt string // of its latest claim, or the one that will ask first
}

func (s *subject) record(i int) *idem.Record { return s.nodes.record(i, s.ns, s.key) }

// attemptMine is the attempt that made a subject's latest claim.
func (s *subject) mine() string { return "attempt-of-" + s.key[:min(100, len(s.key))] }

// outcome is what subjects are settled with.
func outcome(verdict, key, token, id string) map[string]any {
	m := map[string]any{"op": verdict, "key": key, "token": token, "response": map[string]any{"id": id, "secret": "s3cr3t"}}
	if verdict == "fail" {
		m["errorCode"] = "REFUSED-" + id
	}
	return m
}

// without copies m, without one member.
func without(m map[string]any, name string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// born makes a UUIDv7 key of a given birth.
func born(at time.Time) string {
	var u [16]byte
	_, _ = rand.Read(u[:])
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// claimed is what a claim asks for to come into a state. Times are tiny where
// the state is one that time brings about.
func claimed(state, key, attempt string) map[string]any {
	m := map[string]any{
		"op": "reserve", "key": key, "attemptId": attempt,
		"operation": "pay", "request": map[string]any{"amount": 10}, "lease": "2m",
	}
	switch state {
	case "U", "L":
		m["lease"] = "1ms"
	case "E", "X":
		m["ttl"] = "1ms"
	}
	return m
}

// viewed is what GET shows of a state, once time has done its part.
func viewed(state string, r *idem.Record) bool {
	switch state {
	case "A", "H":
		return r == nil
	case "P":
		return r != nil && r.Status == "pending" && !r.Takeover
	case "U":
		return r != nil && r.Status == "uncertain" && !r.Takeover
	case "L":
		return r != nil && r.Status == "uncertain" && r.Takeover
	case "S":
		return r != nil && (r.Status == "committed" || r.Status == "failed") && r.Verdict == ""
	case "E", "X":
		return r != nil && r.Status == "expired" && (r.Verdict == "committed" || r.Verdict == "failed") && len(r.Response) == 0
	case "R":
		return r != nil && r.Status == "released"
	case "C":
		return r != nil && r.Status == "cancelled" && r.Token == ""
	case "K":
		return r != nil && r.Status == "cancelled" && r.Token != ""
	}
	return false
}

// bring brings subjects into their states, all through node i, in batches.
func bring(n *nodes, i int, ns string, subjects []*subject) {
	n.t.Helper()
	step := func(status int, f func(s *subject) map[string]any) {
		n.t.Helper()
		var items []map[string]any
		var whose []*subject
		for _, s := range subjects {
			if m := f(s); m != nil {
				items, whose = append(items, m), append(whose, s)
			}
		}
		for k, a := range n.batch(i, ns, items) {
			if a.status != status {
				n.t.Fatalf("%s: %s answered %s", whose[k].state, toJSON(items[k]), a)
			}
			if a.Outcome == "reserved" {
				whose[k].token = a.Token
			}
		}
	}
	step(201, func(s *subject) map[string]any {
		s.token, s.attempt = "77", s.mine()
		switch s.state {
		case "A", "H", "C":
			return nil
		}
		return claimed(s.state, s.key, s.mine())
	})
	step(200, func(s *subject) map[string]any {
		switch s.state {
		case "S", "E", "X":
			return outcome(s.verdict, s.key, s.token, "o1")
		case "R", "K":
			return map[string]any{"op": "release", "key": s.key, "token": s.token}
		}
		return nil
	})
	step(200, func(s *subject) map[string]any {
		if s.state == "C" || s.state == "K" {
			return map[string]any{"op": "cancel", "key": s.key, "reason": "matrix"}
		}
		return nil
	})
	// Time is the log's: look until the last of each state is there.
	last := map[string]*subject{}
	for _, s := range subjects {
		last[s.state] = s
	}
	for state, status := range map[string]string{"U": "uncertain", "L": "uncertain", "E": "expired", "X": "expired"} {
		if s := last[state]; s != nil {
			eventually(n.t, ns+"/"+s.key+" is "+status, func() bool { return s.record(i).Status == status })
		}
	}
	sweepAll(n)
}

// sweepAll sweeps what is due, so that no sweep falls into a cell.
func sweepAll(n *nodes) {
	n.t.Helper()
	eventually(n.t, "nothing is left to sweep", func() bool {
		a := n.must(200, n.do(0, "POST", "/v1/sweep", ""))
		return strings.TrimSpace(string(a.raw)) == `{"dropped":0,"tombstoned":0,"remaining":0}`
	})
}

// raiseHorizon makes a namespace forget a settled key whose policy was
// onExpired reject, so that keys born before now are expired for ever. The
// namespace must keep nothing beyond the ttl (retention 0).
func raiseHorizon(n *nodes, ns string) {
	n.t.Helper()
	key := born(time.Now().Add(-time.Minute))
	s := &subject{nodes: n, ns: ns, key: key, state: "E", verdict: "commit"}
	token := n.must(201, n.call(0, ns, "reserve", without(claimed("E", key, s.mine()), "op"))).Token
	n.must(200, n.call(0, ns, "commit", map[string]any{"key": key, "token": token}))
	eventually(n.t, "the victim is removed", func() bool {
		n.must(200, n.do(0, "POST", "/v1/sweep", ""))
		return s.record(0) == nil
	})
}

// freshKey gives a key for a state: absent keys are sometimes UUIDv7 born
// after the horizon and sometimes opaque, forgotten ones are UUIDv7 born
// before it.
func freshKey(t testing.TB, state string, n int) string {
	switch {
	case state == "H":
		return born(time.Now().Add(-time.Duration(1+n) * time.Minute))
	case state == "A" && n%2 == 0:
		return born(time.Now().Add(time.Minute))
	}
	return fmt.Sprintf("matrix-%s-%05d", state, n)
}
