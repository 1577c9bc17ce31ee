package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// profile is one way to come to the states of the matrix: which policy the
// claims were made under and which holds when the cells are asked. States that
// no claim can be in under a preset as it stands need the overrides named
// here: retention, so that an expired record exists at all, and the two re-run
// rules, for L and X under strict and L and E under gateway.
type profile struct {
	name     string
	forget   string // policy while the horizon is raised
	early    string // policy under which the states of before are claimed
	before   string
	now      string // policy under which the cells are asked
	after    string // states that are claimed under it
	reject   bool   // onDuplicate
	redacted bool
}

var profiles = []profile{
	{
		name:   "strict",
		forget: `{"preset":"strict","retention":"0s"}`,
		now:    `{"preset":"strict"}`, after: "A H P U S E R C K", redacted: true,
	},
	{
		name:   "strict-then-rerun",
		forget: `{"preset":"strict","retention":"0s"}`,
		early:  `{"preset":"strict"}`, before: "U E",
		now: `{"preset":"strict","onLeaseExpiry":"rerun","onExpired":"rerun"}`, after: "A H P L S X R C K", redacted: true,
	},
	{
		name:  "rerun-then-strict",
		early: `{"preset":"strict","onLeaseExpiry":"rerun","onExpired":"rerun"}`, before: "P U S E R K",
		now: `{"preset":"strict"}`, redacted: true,
	},
	{
		name:   "gateway",
		forget: `{"preset":"gateway","onExpired":"reject"}`,
		now:    `{"preset":"gateway","retention":"1h"}`, after: "A H P U S X R C K", reject: true,
	},
	{
		name:   "gateway-then-rerun",
		forget: `{"preset":"gateway","onExpired":"reject"}`,
		early:  `{"preset":"gateway","retention":"1h","onExpired":"reject"}`, before: "U E",
		now: `{"preset":"gateway","retention":"1h","onLeaseExpiry":"rerun"}`, after: "A H P L S X R C K", reject: true,
	},
}

const columns = "A H P U L S E X R C K"

// row is one row of semantics.md section 11: what each state answers, in the
// order of columns, and ">P" where the record changes, to which state.
type row struct {
	name  string
	cells string
	calls []func(s *subject) map[string]any
}

func reserveBy(attempt func(s *subject) string, more ...any) func(s *subject) map[string]any {
	return func(s *subject) map[string]any {
		m := claimed("", s.key, attempt(s))
		m["lease"] = "5m"
		for i := range len(more) / 2 {
			m[more[2*i].(string)] = more[2*i+1]
		}
		return m
	}
}

func other(s *subject) string { return "another-" + s.mine() }

// holderCall is commit, fail, release, extend or resolve with a token.
func holderCall(op string, token func(s *subject) string, more ...any) func(s *subject) map[string]any {
	return func(s *subject) map[string]any {
		m := map[string]any{"op": op, "key": s.key}
		if t := token(s); t != "" {
			m["token"] = t
		}
		switch op {
		case "fail":
			m["errorCode"] = "REFUSED-o1"
		case "extend":
			m["lease"] = "5m"
		case "resolve":
			m["reason"], m["actor"] = "matrix", "e2e"
		}
		for i := range len(more) / 2 {
			m[more[2*i].(string)] = more[2*i+1]
		}
		return m
	}
}

func last(s *subject) string { return s.token }
func none(*subject) string   { return "" }

// stale is a token that no claim of the key ever had.
func stale(s *subject) string {
	b := []byte(s.token)
	b[len(b)-1] = '0' + (b[len(b)-1]-'0'+1)%10
	return string(b)
}

func otherVerdict(v string) string {
	if v == "fail" {
		return "commit"
	}
	return "fail"
}

// settles is commit or fail, as the subject was or another way.
func settles(id string, another bool, more ...any) func(s *subject) map[string]any {
	return func(s *subject) map[string]any {
		v := s.verdict
		if another {
			v = otherVerdict(v)
		}
		m := outcome(v, s.key, s.token, id)
		for i := range len(more) / 2 {
			m[more[2*i].(string)] = more[2*i+1]
		}
		return m
	}
}

// states is resolve with the verdict of the subject or the other one; with an
// id the whole outcome, without one the verdict alone.
func states(id string, another bool, token func(s *subject) string) func(s *subject) map[string]any {
	return func(s *subject) map[string]any {
		v := s.verdict
		if another {
			v = otherVerdict(v)
		}
		m := map[string]any{}
		if id != "" {
			m = outcome(v, s.key, "", id)
		}
		m["op"], m["key"], m["reason"], m["actor"] = "resolve", s.key, "matrix", "e2e"
		m["token"] = token(s)
		m["verdict"] = map[string]string{"commit": "committed", "fail": "failed"}[v]
		return m
	}
}

const absent = "not_found not_found "

var rows = []row{
	{
		"reserve, last attemptId, same request",
		"granted>P expired resumed>P resumed>P resumed>P replayed expired granted+1>P attempt_spent cancelled cancelled",
		[]func(*subject) map[string]any{reserveBy((*subject).mine)},
	},
	{
		"reserve, other attemptId, same request",
		"granted>P expired in_flight uncertain granted+1>P replayed expired granted+1>P granted+1>P cancelled cancelled",
		[]func(*subject) map[string]any{reserveBy(other), reserveBy(other, "request", map[string]any{"amount": 10.0})},
	},
	{
		"reserve, other request or operation, any attemptId",
		"granted>P expired conflict conflict conflict conflict expired granted+1>P conflict cancelled cancelled",
		[]func(*subject) map[string]any{
			reserveBy(other, "request", 7), reserveBy((*subject).mine, "request", 7),
			reserveBy(other, "operation", "refund"), reserveBy((*subject).mine, "operation", ""),
		},
	},
	{
		"commit / fail, last token, first time or same outcome",
		absent + "ok>S ok>S ok>S ok ok ok ok>S stale_token ok>S",
		[]func(*subject) map[string]any{settles("o1", false)},
	},
	{
		"commit / fail, last token, another outcome",
		absent + "ok>S ok>S ok>S already_settled already_settled already_settled ok>S stale_token ok>S",
		[]func(*subject) map[string]any{settles("o2", false), settles("o1", true)},
	},
	{
		"release, last token",
		absent + "ok>R ok>R ok>R already_settled already_settled already_settled ok stale_token stale_token",
		[]func(*subject) map[string]any{holderCall("release", last)},
	},
	{
		"extend, last token",
		absent + "ok>P ok>P ok>P already_settled already_settled already_settled stale_token stale_token stale_token",
		[]func(*subject) map[string]any{holderCall("extend", last)},
	},
	{
		"any of these four, another token",
		absent + strings.Repeat("stale_token ", 9),
		[]func(*subject) map[string]any{
			holderCall("commit", stale), holderCall("fail", stale), holderCall("release", stale), holderCall("extend", stale),
			settles("o1", false, "token", "1"), // the recorded outcome, by nobody
		},
	},
	{
		"any of these four, and resolve, no token",
		strings.Repeat("token_missing ", 11),
		[]func(*subject) map[string]any{
			holderCall("commit", none), holderCall("fail", none), holderCall("release", none), holderCall("extend", none),
			holderCall("resolve", none, "verdict", "committed"),
		},
	},
	{
		"resolve committed / failed, last token, same verdict",
		absent + "in_flight ok>S ok>S ok ok ok ok>S stale_token ok>S",
		[]func(*subject) map[string]any{states("o1", false, last), states("", false, last)},
	},
	{
		"resolve committed / failed, last token, another outcome",
		absent + "in_flight ok>S ok>S already_settled already_settled already_settled ok>S stale_token ok>S",
		[]func(*subject) map[string]any{states("o2", false, last), states("o1", true, last), states("", true, last)},
	},
	{
		"resolve not_applied, last token",
		absent + "in_flight ok>R ok>R already_settled already_settled already_settled ok stale_token stale_token",
		[]func(*subject) map[string]any{holderCall("resolve", last, "verdict", "not_applied")},
	},
	{
		"resolve, another token",
		absent + strings.Repeat("stale_token ", 9),
		[]func(*subject) map[string]any{states("o1", false, stale), holderCall("resolve", stale, "verdict", "not_applied")},
	},
	{
		"cancel",
		"ok>C expired in_flight uncertain uncertain already_settled expired ok>C ok>K ok ok",
		[]func(*subject) map[string]any{func(s *subject) map[string]any {
			return map[string]any{"op": "cancel", "key": s.key, "reason": "matrix"}
		}},
	},
	{
		"commit, last token, a wrong expectedVersion: after the repeat, before any change",
		absent + "stale_version stale_version stale_version ok ok ok stale_version stale_token stale_version",
		[]func(*subject) map[string]any{settles("o1", false, "expectedVersion", 99)},
	},
	{
		"release, last token, a wrong expectedVersion",
		absent + "stale_version stale_version stale_version already_settled already_settled already_settled ok stale_token stale_token",
		[]func(*subject) map[string]any{holderCall("release", last, "expectedVersion", 99)},
	},
}

// TestMatrix asks every cell of semantics.md section 11 through each of the
// three nodes, and as an item of a batch, under the two presets and under
// policies that changed between claim and call.
func TestMatrix(t *testing.T) {
	t.Parallel()
	n := dev(t)
	var asked, group sync.WaitGroup
	work := make(chan cell)
	for range 24 {
		group.Go(func() {
			for c := range work {
				c.ask(t)
				asked.Done()
			}
		})
	}
	total := 0
	for _, p := range profiles {
		began := time.Now()
		cells := p.build(n)
		built, term := time.Since(began), n.metric(0, "onced_term")
		var mu sync.Mutex
		var unsteady []string
		report := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			unsteady = append(unsteady, s)
		}
		total += len(cells)
		asked.Add(len(cells))
		for _, c := range cells {
			c.unsteady = report
			work <- c
		}
		asked.Wait()
		for _, s := range unsteady {
			if n.metric(0, "onced_term") == term {
				t.Error(s)
			}
		}
		t.Logf("%s: %d cells, built in %v, asked in %v", p.name, len(cells), built.Round(time.Millisecond), (time.Since(began) - built).Round(time.Millisecond))
	}
	close(work)
	group.Wait()
	t.Logf("%d cells asked", total)
	n.settledState(0, 1, 2)
}

// build brings a subject for every cell of the profile into its state.
func (p profile) build(n *nodes) (cells []cell) {
	number := 0
	bringAll := func(wanted string) {
		var subjects []*subject
		for _, state := range strings.Fields(wanted) {
			column := strings.Index(columns, state) / 2
			for r := range rows {
				answers := strings.Fields(rows[r].cells)
				for _, call := range rows[r].calls {
					for way := range 4 {
						for _, verdict := range []string{"commit", "fail"} {
							if number++; state != "S" && state != "E" && state != "X" && (number/2+way)%2 == 0 == (verdict == "fail") {
								continue // one verdict is enough where there is none yet
							}
							s := &subject{nodes: n, ns: p.name, state: state, verdict: verdict, key: freshKey(n.t, state, number)}
							subjects = append(subjects, s)
							want, next, _ := strings.Cut(answers[column], ">")
							cells = append(cells, cell{profile: p, row: &rows[r], subject: s, way: way, want: want, next: next, call: call})
						}
					}
				}
			}
		}
		bring(n, number%3, p.name, subjects)
	}
	if p.forget != "" {
		n.policy(p.name, p.forget)
		raiseHorizon(n, p.name)
	}
	if p.before != "" {
		n.policy(p.name, p.early)
		bringAll(p.before)
	}
	n.policy(p.name, p.now)
	if p.after != "" {
		bringAll(p.after)
	}
	return cells
}

// cell is one call on one subject by one way: through node 0, 1 or 2, or as an
// item of a batch (3).
type cell struct {
	profile profile
	row     *row
	*subject
	way        int
	want, next string
	call       func(s *subject) map[string]any

	// What a change of leader may bring about, and nothing else: it counts only
	// when there was none.
	shaky    faulter
	unsteady func(report string)
}

func (c *cell) String() string {
	return fmt.Sprintf("%s, state %s (%s), %s, through %s", c.profile.name, c.state, c.verdict, c.row.name,
		[]string{"n1", "n2", "n3", "a batch"}[c.way])
}

// send makes the call through a node or in a batch.
func (c *cell) send(way int, m map[string]any) *answer {
	if way == 3 {
		return c.nodes.batch(len(c.key)%3, c.ns, []map[string]any{m})[0]
	}
	return c.nodes.call(way, c.ns, m["op"].(string), without(m, "op"))
}
