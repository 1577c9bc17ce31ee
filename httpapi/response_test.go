package httpapi

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// rawResponse cuts the response out of an answer as it was sent.
func rawResponse(t *testing.T, g *got) string {
	t.Helper()
	_, rest, ok := strings.Cut(g.raw, `"response":`)
	if !ok {
		t.Fatalf("no response in %s", g.raw)
	}
	end := strings.LastIndex(rest, `,"attempt"`)
	if i := strings.LastIndex(rest[:end], `,"attemptId"`); i >= 0 {
		end = i
	}
	return rest[:end]
}

// Replays give what was sent, white space between tokens aside: digits, member
// order and escapes unchanged (B49).
func TestB49_ResponseIsKeptAsSent(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for i, c := range []struct{ sent, kept string }{
		{`{"b":1.50,"a":1e2,"big":9007199254740993,"tiny":-0.0}`, ""},
		{`{"s":"\u0041\/\u00e9é<>&\ud83d\ude00\u2028","t":" spaced  text "}`, ""},
		{" {\n \"a\" : [ 1 , 2 ,{ } ] }\t", `{"a":[1,2,{}]}`},
		{`null`, ""},
		{`false`, ""},
		{`0`, ""},
		{`""`, ""},
		{`{}`, ""},
		{`[]`, ""},
		{`1e400`, ""},
		{`9007199254740993.0`, ""},
		{`12345678901234567890123456789012345678901234567890`, ""},
	} {
		if c.kept == "" {
			c.kept = c.sent
		}
		key := "kept-key-000" + string(rune('a'+i))
		token := e.reserve(key, attemptA)
		commit := `{"key":"` + key + `","token":"` + token + `","response":` + c.sent + `}`
		if got := rawResponse(t, e.post("commit", commit).ok(200)); got != c.kept {
			t.Errorf("commit of %s answers %s", c.sent, got)
		}
		e.post("commit", commit).ok(200)
		if got := rawResponse(t, e.post("reserve", `{"key":"`+key+`"}`).ok(200)); got != c.kept {
			t.Errorf("%s is replayed as %s", c.sent, got)
		}
		if got := rawResponse(t, e.do("GET", "/v1/namespaces/default/records/"+key, "").ok(200)); got != c.kept {
			t.Errorf("%s is read as %s", c.sent, got)
		}
	}
	// No response, null and {} are three outcomes.
	token := e.reserve("kept-key-0100", attemptA)
	head := `{"key":"kept-key-0100","token":"` + token + `"`
	g := e.post("commit", head+`}`).ok(200)
	if strings.Contains(g.raw, `"response"`) {
		t.Errorf("a response out of nothing: %s", g.raw)
	}
	e.post("commit", head+`}`).ok(200)
	e.post("commit", head+`,"response":null}`).problem(409, idem.CodeAlreadySettled)
	e.post("commit", head+`,"response":{}}`).problem(409, idem.CodeAlreadySettled)
}

// The same outcome in another spelling is the same; another is not.
func TestSameOutcome(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	token := e.reserve("same-key-0001", attemptA)
	head := `{"key":"same-key-0001","token":"` + token + `"`
	e.post("fail", head+`,"errorCode":"x","response":{"a":1,"b":2}}`).ok(200)
	e.post("fail", head+`,"errorCode":"x","response":{ "b":2.0, "a":1e0 }}`).ok(200)
	e.post("fail", head+`,"errorCode":"y","response":{"a":1,"b":2}}`).problem(409, idem.CodeAlreadySettled)
	e.post("fail", head+`,"errorCode":"x","response":{"a":1,"b":3}}`).problem(409, idem.CodeAlreadySettled)
	e.post("commit", head+`,"response":{"a":1,"b":2}}`).problem(409, idem.CodeAlreadySettled)
	// The digests outlive versions: their kinds are these.
	want, _ := idem.OutcomeDigest("failed", "x", jsontext.Value(`{"a":1,"b":2}`), true)
	wantCommitted, _ := idem.OutcomeDigest("committed", "", jsontext.Value(`{"a":1,"b":2}`), true)
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	if d := e.node.decided; d[1].OutcomeDigest != want || d[len(d)-1].OutcomeDigest != wantCommitted {
		t.Error("an outcome digest of another kind")
	}
}

// Secrets leave the response before the command is built: neither the node nor
// the log sees them.
func TestRedaction(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("open", `{"redact":false}`)
	const response = `{"id":"r-1","Api-Key":{"deep":["s3cr3t-a"]},"note":"token AKIAIOSFODNN7EXAMPLE here","n":1.50}`
	for _, ns := range []string{"default", "open"} {
		path := "/v1/namespaces/" + ns + "/"
		for _, op := range []string{"commit", "fail", "resolve"} {
			key := op + "-key-0001"
			token := e.do("POST", path+"reserve", `{"key":"`+key+`","attemptId":"`+attemptA+`","lease":"1ms"}`).ok(201).str("token")
			more := map[string]string{"commit": "", "fail": `,"errorCode":"x"`, "resolve": `,"verdict":"failed","errorCode":"x","reason":"r","actor":"a"`}[op]
			e.node.advance(2e6)
			body := `{"key":"` + key + `","token":"` + token + `","response":` + response + more + `}`
			first := e.do("POST", path+op, body).ok(200)
			again := e.do("POST", path+op, body).ok(200)
			replay := e.do("POST", path+"reserve", `{"key":"`+key+`"}`).ok(200)
			for _, g := range []*got{first, again, replay} {
				secret := strings.Contains(g.raw, "s3cr3t") || strings.Contains(g.raw, "AKIA")
				if secret != (ns == "open") {
					t.Errorf("%s %s: shows the secret: %v: %s", ns, op, secret, g.raw)
				}
				pointers, _ := g.at("record", "redacted").([]any)
				if ns == "default" && (len(pointers) != 2 || pointers[0] != "/Api-Key" || pointers[1] != "/note" || !strings.Contains(g.raw, `"n":1.50`)) {
					t.Errorf("%s: redacted %v in %s", op, pointers, g.raw)
				}
			}
			if g := e.do("POST", path+"batch", `{"operations":[{"op":"`+op+`",`+body[1:]+`]}`).ok(200); ns == "default" && strings.Contains(g.raw, "s3cr3t") {
				t.Errorf("a batch shows the secret: %s", g.raw)
			}
		}
	}
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	for _, c := range e.node.decided {
		if c.Namespace == "default" && strings.Contains(c.String(), "s3cr3t") {
			t.Errorf("a command carries the secret: %v", c)
		}
	}
}

// A response that is too large never strands the claim; its digest still tells
// the same outcome from another.
func TestLargeResponses(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for name, size := range map[string]int{"over-max-0001": 64<<10 + 1, "over-any-0001": 256<<10 + 1} {
		token := e.reserve(name, attemptA)
		body := func(c string) string {
			return `{"key":"` + name + `","token":"` + token + `","response":"` + strings.Repeat(c, size-2) + `"}`
		}
		for range 2 {
			g := e.post("commit", body("x")).ok(200)
			if g.at("record", "responseOmitted") != true || g.at("record", "response") != nil {
				t.Errorf("%s: %.300s", name, g.raw)
			}
		}
		e.post("commit", body("y")).problem(409, idem.CodeAlreadySettled)
		g := e.post("reserve", `{"key":"`+name+`"}`).ok(200)
		if g.at("record", "responseOmitted") != true {
			t.Errorf("the replay does not say so: %s", g.raw)
		}
	}
	e.node.mu.Lock()
	for _, c := range e.node.decided {
		if len(c.Response) > 256<<10 {
			t.Errorf("a command carries %d bytes of response", len(c.Response))
		}
	}
	e.node.mu.Unlock()
	// A holder that cannot even send it says so; that is not the same as having
	// no response.
	token := e.reserve("not-sent-0001", attemptA)
	omitted := `{"key":"not-sent-0001","token":"` + token + `","responseOmitted":true`
	e.post("commit", omitted+`,"response":1}`).problem(400, idem.CodeInvalidRequest)
	for range 2 {
		if g := e.post("commit", omitted+`}`).ok(200); g.at("record", "responseOmitted") != true {
			t.Errorf("%s", g.raw)
		}
	}
	e.post("commit", `{"key":"not-sent-0001","token":"`+token+`"}`).problem(409, idem.CodeAlreadySettled)
	// Exactly the limit fits, counted without white space between tokens.
	token = e.reserve("just-fits-0001", attemptA)
	g := e.post("commit", `{"key":"just-fits-0001","token":"`+token+`","response": [  "`+strings.Repeat("x", 64<<10-4)+`"  ] }`).ok(200)
	if g.at("record", "responseOmitted") != nil {
		t.Error("a response of just maxResponseBytes was left out")
	}
}

// B51: all 256 byte values come back as they were sent, in base64 as gateways
// send bodies, and as characters of a string, escaped or not.
func TestB51_AnyBytesComeBack(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	all := make([]byte, 256)
	var escaped, plain strings.Builder
	for i := range all {
		all[i] = byte(i)
		fmt.Fprintf(&escaped, `\u%04x`, i)
		if i >= ' ' && i != '"' && i != '\\' {
			plain.WriteRune(rune(i))
		}
	}
	for i, response := range []string{
		`{"body":"` + base64.StdEncoding.EncodeToString(all) + `"}`, `"` + escaped.String() + `"`, `"` + plain.String() + `"`,
		`""`, `"\u0000"`,
	} {
		key := fmt.Sprintf("binary-%04d", i)
		token := e.reserve(key, attemptA)
		want := `"response":` + response
		for _, g := range []*got{
			e.post("commit", `{"key":"`+key+`","token":"`+token+`","response":`+response+`}`).ok(200),
			e.post("reserve", `{"key":"`+key+`"}`).ok(200),
			e.do("GET", "/v1/namespaces/default/records/"+key, "").ok(200),
		} {
			if !strings.Contains(g.raw, want) {
				t.Errorf("%s is not in %s", want, g.raw)
			}
		}
	}
}
