package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// until asks for one decision until there is one: what was not answered, and
// 503, is asked again on another node, with the same attemptId or token. It
// gives the decision and how many of the answers before it were 503 or none.
func (n *nodes) until(t testing.TB, i int, op string, m map[string]any, seen *unsettled) *answer {
	deadline := time.Now().Add(60 * time.Second)
	for ; ; i++ {
		a := n.call(i%3, "default", op, m, "Onced-Timeout", patience(i))
		if seen.decided(t, a, op+" "+toJSON(m)) {
			return a
		}
		if time.Now().After(deadline) {
			t.Errorf("no decision within 60 s: %s %s: %s", op, toJSON(m), a)
			return a
		}
		breathe()
	}
}

// untilAll is until for a batch: it is sent again as it was until every item is
// decided. It gives the last answer to each.
func (n *nodes) untilAll(t testing.TB, i int, items []map[string]any, seen *unsettled) []*answer {
	deadline := time.Now().Add(60 * time.Second)
	for ; ; i++ {
		all := n.call(i%3, "default", "batch", map[string]any{"operations": items}, "Onced-Timeout", patience(i))
		decided := all.err == nil
		if all.err != nil {
			seen.cut.Add(1)
		} else if all.status != 200 {
			t.Errorf("a batch was answered %s", all)
			return nil
		}
		answers := all.results(n.t)
		for k, a := range answers {
			decided = seen.decided(t, a, toJSON(items[k])) && decided
		}
		if decided && len(answers) == len(items) {
			return answers
		}
		if time.Now().After(deadline) {
			t.Errorf("no decision within 60 s: %s", all)
			return nil
		}
		breathe()
	}
}

// patience is how long a call may take: some callers are so short of it that a
// change of leader leaves them without a decision.
func patience(i int) string {
	if i%4 == 3 {
		return "150ms"
	}
	return "2s"
}

// unsettled counts answers that were none.
type unsettled struct{ cut, unknown, no atomic.Int64 }

// decided tells whether a is an answer at all; if not, it counts it, and holds
// a 503 against what it must say.
func (u *unsettled) decided(t testing.TB, a *answer, what string) bool {
	switch {
	case a.err != nil:
		u.cut.Add(1)
	case a.status != 503:
		return true
	case a.Code != "idempotency_unavailable" && a.Code != "overloaded", !a.Retryable, a.RetryAfterMs < 1:
		t.Errorf("%s: %s", what, a)
	case a.Applied == "unknown":
		u.unknown.Add(1)
	case a.Applied == "no":
		u.no.Add(1)
	default:
		t.Errorf("%s: 503 that does not say whether it was applied: %s", what, a)
	}
	return false
}

func (u *unsettled) String() string {
	return fmt.Sprintf("%d cut off, %d unknown, %d surely not applied", u.cut.Load(), u.unknown.Load(), u.no.Load())
}

// ack is one acknowledged commit.
type ack struct {
	key, token string
	request    int
	response   string
}

// writers reserve and commit fresh keys on all nodes, without a pause, and
// remember what was acknowledged and when.
type writers struct {
	n     *nodes
	seen  unsettled
	stop  chan struct{}
	group sync.WaitGroup

	mu    sync.Mutex
	acks  []ack
	times []time.Time // of each acknowledgement, reserves and commits
}

func startWriters(t *testing.T, n *nodes, clients int, prefix string) *writers {
	w := &writers{n: n, stop: make(chan struct{})}
	for c := range clients {
		w.group.Go(func() { w.write(t, c, prefix) })
	}
	return w
}

func (w *writers) write(t *testing.T, client int, prefix string) {
	newest := ""
	for k := 0; ; k++ {
		select {
		case <-w.stop:
			return
		default:
		}
		a := ack{key: fmt.Sprintf("%s-%03d-%06d", prefix, client, k), request: k, response: fmt.Sprintf("done %d/%d", client, k)}
		attempt := fmt.Sprintf("attempt-%x", rand.Uint64())
		grant := w.n.until(t, client+k, "reserve", map[string]any{"key": a.key, "attemptId": attempt, "request": k, "lease": "5m"}, &w.seen)
		if grant.status != 201 || grant.Attempt != 1 || grant.AttemptID != attempt {
			t.Errorf("a fresh key: %s", grant)
			return
		}
		w.acked()
		if a.token = grant.Token; newest != "" && !later(a.token, newest) {
			t.Errorf("token %s came after %s", a.token, newest)
		}
		newest = a.token
		done := w.n.until(t, client+k+1, "commit", map[string]any{"key": a.key, "token": a.token, "response": a.response}, &w.seen)
		if done.status != 200 || done.Outcome != "committed" {
			t.Errorf("the commit of a held key: %s", done)
			return
		}
		w.acked()
		w.mu.Lock()
		w.acks = append(w.acks, a)
		w.mu.Unlock()
	}
}

func (w *writers) acked() {
	now := time.Now()
	w.mu.Lock()
	w.times = append(w.times, now)
	w.mu.Unlock()
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.times)
}

// finish stops the writers; those under way come to their end first.
func (w *writers) finish() {
	close(w.stop)
	w.group.Wait()
	slices.SortFunc(w.times, time.Time.Compare)
}

// gap gives the longest time without an acknowledgement between two moments.
func (w *writers) gap(from, to time.Time) (longest time.Duration) {
	last := from
	for _, at := range w.times {
		if at.Before(from) || at.After(to) {
			continue
		}
		longest, last = max(longest, at.Sub(last)), at
	}
	return longest
}

// verify wants every acknowledged commit replayed, the same, by each node.
func (n *nodes) verify(t *testing.T, acks []ack) {
	t.Helper()
	n.settledState(0, 1, 2)
	var first []string
	for i := range 3 {
		var items []map[string]any
		for _, a := range acks {
			items = append(items, map[string]any{"op": "reserve", "key": a.key, "request": a.request, "attemptId": "verify-attempt-0001"})
		}
		for k, a := range n.batch(i, "default", items) {
			want := acks[k]
			if a.status != 200 || a.Outcome != "replayed" || a.Record.Status != "committed" || a.Record.Attempt != 1 ||
				string(a.Record.Response) != strconv.Quote(want.response) {
				t.Errorf("acknowledged commit of %s, from n%d: %s, want %q", want.key, i+1, a, want.response)
				continue
			}
			record := toJSON(settled(a.Record))
			if i == 0 {
				first = append(first, record)
			} else if k < len(first) && record != first[k] {
				t.Errorf("n%d replays %s, n1 %s", i+1, record, first[k])
			}
		}
		// Some alone, too: the batch must not be what made them so.
		for k := 0; k < len(acks); k += max(1, len(acks)/50) {
			a := n.call(i, "default", "reserve", map[string]any{"key": acks[k].key, "request": acks[k].request})
			if a.status != 200 || string(a.Record.Response) != strconv.Quote(acks[k].response) {
				t.Errorf("acknowledged commit of %s, from n%d: %s", acks[k].key, i+1, a)
			}
		}
		if len(acks) > 0 {
			r := n.record(i, "default", acks[0].key)
			if r == nil || r.Token != acks[0].token || jsontext.Value(r.Response).Kind() != '"' {
				t.Errorf("record %s from n%d: %s", acks[0].key, i+1, show(r))
			}
		}
	}
	tokens := map[string]string{}
	for _, a := range acks {
		if tokens[a.token] != "" {
			t.Errorf("token %s was given to %s and %s", a.token, tokens[a.token], a.key)
		}
		tokens[a.token] = a.key
	}
}
