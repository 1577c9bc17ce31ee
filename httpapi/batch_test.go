package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onced/onced/idem"
)

// item gives the result of one item, dressed as an answer of its own.
func (g *got) item(i int) *got {
	g.t.Helper()
	results, _ := g.at("results").([]any)
	if i >= len(results) {
		g.t.Fatalf("no result %d in %s", i, g.raw)
	}
	r := results[i].(map[string]any)
	body, _ := r["body"].(map[string]any)
	raw, _ := marshalTest(body)
	return &got{t: g.t, status: int(r["status"].(float64)), json: body, raw: raw, header: g.header}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	held := e.reserve("batch-key-0001", attemptA)
	g := e.post("batch", `{"operations":[
		{"op":"reserve","key":"batch-key-0002","attemptId":"`+attemptA+`","request":{"a":1}},
		{"op":"reserve","key":"batch-key-0002","attemptId":"`+attemptB+`","request":{"a":1}},
		{"key":"batch-key-0001","token":"`+held+`","response":{"x":1.50},"op":"commit"},
		{"op":"reserve","key":"batch-key-0001"},
		{"op":"reserve","key":"short"},
		{"op":"commit","key":"nothing-here-1","token":"5"},
		{"op":"reserve","key":"batch-key-0003","wait":"1s"},
		{"op":"reserve","key":"batch-key-0004","surprise":1},
		{"op":"evaporate","key":"batch-key-0005"},
		{"key":"batch-key-0006"},
		7,
		{"op":"cancel","key":"batch-key-0007","reason":"r"},
		{"op":"reserve","key":"batch-key-0008"}
	]}`, "X-Correlation-ID", "corr-b").ok(200)
	if n := len(g.at("results").([]any)); n != 13 {
		t.Fatalf("%d results", n)
	}
	if g.header.Get("Onced-Index") != "2" || g.header.Get("Onced-Time") == "" || g.header.Get("Idempotency-Key") != "" {
		t.Errorf("headers %v", g.header)
	}
	check := func(i, status int, code idem.Code, says string) {
		t.Helper()
		it := g.item(i)
		if it.status != status || it.str("code") != string(code) || !strings.Contains(it.str("detail"), says) {
			t.Errorf("item %d: %d %s", i, it.status, it.raw)
		}
		if code != "" && (it.at("status") != float64(status) || it.str("correlationId") != "corr-b") {
			t.Errorf("item %d is no whole problem: %s", i, it.raw)
		}
	}
	check(0, 201, "", "")
	check(1, 409, idem.CodeInFlight, "") // each sees those before it
	check(2, 200, "", "")
	check(3, 200, "", "")
	check(4, 400, idem.CodeKeyInvalid, "operations[4]")
	check(5, 404, idem.CodeNotFound, "")
	check(6, 400, idem.CodeInvalidRequest, "wait")
	check(7, 400, idem.CodeInvalidRequest, "surprise")
	check(8, 400, idem.CodeInvalidRequest, "op")
	check(9, 400, idem.CodeInvalidRequest, "op")
	check(10, 400, idem.CodeInvalidRequest, "object")
	check(11, 200, "", "")
	check(12, 201, "", "")
	if g.item(3).str("outcome") != "replayed" || !strings.Contains(g.raw, `"response":{"x":1.50}`) {
		t.Errorf("the replay in a batch: %s", g.item(3).raw)
	}
	if g.item(0).str("token") == "" || g.item(12).str("attemptId") == "" {
		t.Error("a grant in a batch without its token or attemptId")
	}
	e.node.mu.Lock()
	if n := len(e.node.decided); n != 8 {
		t.Errorf("%d commands went to the node, want 1 + 7", n)
	}
	e.node.mu.Unlock()
	// As if sent alone: the same problem, the place of the item aside.
	alone := e.post("reserve", `{"key":"short"}`)
	if d := strings.TrimPrefix(g.item(4).str("detail"), "operations[4]: "); d != alone.str("detail") {
		t.Errorf("in a batch %q, alone %q", d, alone.str("detail"))
	}
}

func TestBatchRefusedWhole(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const one = `{"op":"reserve","key":"batch-key-0001"}`
	many := strings.TrimSuffix(strings.Repeat(`{"op":"cancel"},`, 1001), ",")
	e.unchanged(func() {
		for body, says := range map[string]string{
			`{}`: "operations", `{"operations":[]}`: "operations", `{"operations":null}`: "operations", `{"operations":{}}`: "operations",
			`{"operations":[` + one + `],"more":1}`: "more", `{"operations":[` + many + `]}`: "1001",
			`{"operations":[` + one + `}`: "body", `{"operations":[{"op":"reserve","op":"cancel"}]}`: "op",
		} {
			e.post("batch", body).problem(400, idem.CodeInvalidRequest).says(says)
		}
		for _, name := range []string{"Idempotency-Key", "If-Match"} {
			e.post("batch", `{"operations":[`+one+`]}`, name, `"batch-key-0001"`).problem(400, idem.CodeInvalidRequest).says(name)
		}
	})
	g := e.post("batch", `{"operations":[`+strings.TrimSuffix(strings.Repeat(one+",", 1000), ",")+`]}`).ok(200)
	if g.item(0).status != 201 || g.item(999).status != 409 {
		t.Errorf("a batch of 1,000: %d, %d", g.item(0).status, g.item(999).status)
	}
	g = e.do("POST", "/v1/namespaces/nobody/batch", `{"operations":[`+one+`]}`).ok(200)
	if it := g.item(0); it.status != 404 || it.str("code") != string(idem.CodeNamespaceNotFound) {
		t.Errorf("an unknown namespace in a batch: %s", it.raw)
	}
}

// Without a decision each item that was to be decided says so, with what is
// known; the others keep their own answer.
func TestBatchWithoutDecision(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.node.set(func() { e.node.err = &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedUnknown} })
	g := e.post("batch", `{"operations":[{"op":"reserve","key":"batch-key-0001"},{"op":"reserve"},{"op":"release","key":"batch-key-0002","token":"7"}]}`).ok(200)
	for i, want := range []string{"503 unknown", "400 ", "503 unknown"} {
		it := g.item(i)
		if have := fmt.Sprintf("%d %s", it.status, it.str("applied")); have != want {
			t.Errorf("item %d: %q, want %q: %s", i, have, want, it.raw)
		}
	}
	if g.item(0).str("attemptId") == "" || g.item(0).at("retryAfterMs") != 1000.0 || g.item(2).at("attemptId") != nil {
		t.Errorf("attemptIds: %s", g.raw)
	}
}

// A batch is decided as one list, whether or not all of it is plain.
func TestBatch_IsOneDecision(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`"op"`, `"\u006fp"`} {
		e := newEdge(t)
		e.post("batch", `{"operations":[{"op":"reserve","key":"list-key-0001"},{`+name+`:"reserve","key":"list-key-0002"},{"op":"reserve","key":"list-key-0003"}]}`).ok(200)
		e.node.set(func() {
			if len(e.node.waits) != 1 || len(e.node.decided) != 3 {
				t.Errorf("%s: %d commands in %d decisions, want 3 in 1", name, len(e.node.decided), len(e.node.waits))
			}
		})
	}
}
