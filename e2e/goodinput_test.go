package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestSpellings: what names the same key, and what is the same request,
// whichever node is asked.
func TestSpellings(t *testing.T) {
	t.Parallel()
	n := dev(t)
	const attempt = "attempt-0123456789"
	for i := range 3 {
		for _, key := range []string{
			strings.Repeat("k", 7) + string(rune('0'+i)), strings.Repeat("k", 255) + string(rune('0'+i)),
			allowed[:40] + string(rune('0'+i)), allowed[40:] + string(rune('0'+i)), "........" + string(rune('0'+i)),
		} {
			token := n.must(201, n.call(i, "default", "reserve", map[string]any{"key": key, "attemptId": attempt})).Token
			for what, headers := range map[string][]string{
				"bare": {"Idempotency-Key", key}, "quoted": {"Idempotency-Key", `"` + key + `"`}, "spaced": {"Idempotency-Key", "  " + key + "\t"},
			} {
				a := n.call((i+1)%3, "default", "reserve", map[string]any{"attemptId": attempt}, headers...)
				if a.status != 201 || a.Token != token || !*a.Resumed || a.header.Get("Idempotency-Key") != key {
					t.Errorf("%s header key %s: %s, want the grant %s", what, key, a, token)
				}
				if a := n.call((i+2)%3, "default", "reserve", map[string]any{"key": key, "attemptId": attempt}, headers...); a.Token != token {
					t.Errorf("body and %s header key %s: %s", what, key, a)
				}
			}
			if a := n.call(i, "default", "reserve", map[string]any{"idempotencyKey": key, "attemptId": attempt}); a.Token != token {
				t.Errorf("idempotencyKey %s: %s", key, a)
			}
			encoded := ""
			for _, c := range []byte(key) {
				encoded += fmt.Sprintf("%%%02X", c)
			}
			a := n.get((i+1)%3, "/v1/namespaces/%64efault/records/"+encoded)
			if a.status != 200 || !strings.Contains(string(a.raw), `"token":"`+token+`"`) {
				t.Errorf("encoded path of %s: %s", key, a)
			}
		}
	}
	// Each line: one request, and others that are the same (409 in flight) or
	// not (422 conflict).
	for k, c := range []struct{ first, same, other []string }{
		{[]string{`9007199254740992`}, []string{`9007199254740992.0`, `9.007199254740992e15`}, []string{`9007199254740993`, `"9007199254740992"`}},
		{[]string{`9007199254740993`}, []string{`9007199254740993`}, []string{`9007199254740992`, `9007199254740994`}},
		{[]string{`{"a":1,"b":[1,2]}`}, []string{`{ "b" : [1,2.0], "a" : 1e0 }`}, []string{`{"a":1,"b":[2,1]}`, `{"a":1}`, `{"a":1,"b":[1,2],"c":null}`}},
		{[]string{`null`}, []string{``, `null`}, []string{`{}`, `""`, `false`, `0`}},
		{[]string{`"\u00e9"`}, []string{`"é"`, `"\u00E9"`}, []string{`"e\u0301"`}},
		{[]string{`0`}, []string{`-0`, `0.0`, `0e9`}, []string{`false`}},
		{[]string{`{"amount":86351,"to":"acct_7094"}`}, nil, []string{`{"amount":112556,"to":"acct_2726"}`}},
	} {
		key := fmt.Sprintf("digest-key-%04d", k)
		ask := func(i int, request string) *answer {
			if request != "" {
				request = `,"request":` + request
			}
			return n.do(i%3, "POST", "/v1/namespaces/default/reserve", `{"key":"`+key+`"`+request+`}`)
		}
		n.must(201, ask(k, c.first[0]))
		for i, same := range c.same {
			if a := ask(k+i, same); a.status != 409 || a.Code != "idempotency_in_flight" {
				t.Errorf("%s after %s: %s, want the same request", same, c.first[0], a)
			}
		}
		for i, other := range c.other {
			a := ask(k+i, other)
			if a.status != 422 || a.Code != "idempotency_key_conflict" || !strings.Contains(a.Detail, "request") || strings.Contains(a.Detail, "operation") {
				t.Errorf("%s after %s: %s, want another request", other, c.first[0], a)
			}
		}
	}
}
