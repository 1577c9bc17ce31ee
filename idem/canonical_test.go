package idem

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"null": "null", " true ": "true", `"a"`: `"a"`, "[]": "[]", "{}": "{}", "0": "0",
		`{"b":1,"a":2}`:                   `{"a":2,"b":1}`,
		"{ \"a\" :\t[ 1 ,\r\n2 ] }":       `{"a":[1,2]}`,
		`[{"b":[],"a":{}},[2,1]]`:         `[{"a":{},"b":[]},[2,1]]`,
		`"\u0061\/\u00e9\u001F\u0008"`:    "\"a/é\\u001f\\b\"",
		`"\uD83D\uDE42"`:                  `"🙂"`,
		`{"\ufb33":1,"\ud83d\ude00":2}`:   "{\"\U0001F600\":2,\"\ufb33\":1}", // by UTF-16, not by code point
		`{"":0,"aa":1,"a":2,"A":3,"é":4}`: `{"":0,"A":3,"a":2,"aa":1,"é":4}`,
		// RFC 8785 section 3.2.2
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]}`: `{"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]}`,
	} {
		before := bytes.Clone([]byte(in))
		got, err := Canonical(jsontext.Value(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
			continue
		}
		if oracle := oracleCanonical(t, before); oracle != want {
			t.Errorf("%s: the oracle says %s, the table %s", in, oracle, want)
		}
	}
	v := jsontext.Value(`{"b":1, "a":2}`)
	if _, err := Canonical(v); err != nil || string(v) != `{"b":1, "a":2}` {
		t.Errorf("the input was changed: %s, %v", v, err)
	}
}

func TestCanonicalRefuses(t *testing.T) {
	t.Parallel()
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for in, part := range map[string]string{
		"":                           "empty",
		"  ":                         "empty",
		`{"a":`:                      "too early",
		`"open`:                      "too early",
		"{a:1}":                      "well-formed",
		"[1,]":                       "well-formed",
		"01":                         "after its end",
		"+1":                         "well-formed",
		".5":                         "well-formed",
		"1.x":                        "well-formed",
		"NaN":                        "well-formed",
		"1 2":                        "after its end",
		`"a" "b"`:                    "after its end",
		"{} ]":                       "after its end",
		"\ufeff{}":                   "well-formed",
		`{"a":1,"b":2,"a":3}`:        "member /a more than once",
		`{"x":[{"a":1,"\u0061":3}]}`: "member /x/0/a more than once",
		`{"a":"\ud800"}`:             "at /a",
		`{"a":"\udc00\ud800"}`:       "at /a",
		`{"\ud800":1}`:               "surrogate",
		"{\"a\":\"\xff\"}":           "at /a",
		"{\"a\":\"\xed\xa0\x80\"}":   "UTF-8", // a surrogate, written in UTF-8
		"\"tab\tbed\"":               "well-formed",
		nest(65):                     "deeper than 64",
		nest(100_000):                "deeper than 64",
		strings.Repeat("[", 70):      "deeper than 64",
		strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65): "/a/a/a/a",
		`{"a":[0,{"b~/c":1e400}]}`:                                  "at /a/1/b~0~1c: the number 1e400",
		`[1e309]`:                                                   "too large",
		`[-1.8e308]`:                                                "too large",
		strings.Repeat("9", 310):                                    "too large",
		`0.1234567890123456789`:                                     "17 significant digits",
		`1.00000000000000000001`:                                    "17 significant digits",
		`123456789012345678e1`:                                      "17 significant digits",
		`9007199254740993.0`:                                        "no value",
		`9.007199254740993e15`:                                      "no value",
		`0.99999999999999999`:                                       "no value",
		`8.500000000000001`:                                         "no value", // and 8.500000000000002 have one float64
		`4503599627370497.5`:                                        "no value",
		`9007199254740993.5`:                                        "no value",
		`1.0000000000000001`:                                        "no value",
		`12345678901234567.0`:                                       "no value",
		`1.2345678901234567e-400`:                                   "no value",
		`1.2345678901234567e-320`:                                   "no value",
		`1e-400`:                                                    "no value",
		`4e-324`:                                                    "no value",
		`{"long":1.` + strings.Repeat("1", 100_000) + `}`: "...",
	} {
		name := cut(in)
		got, err := Canonical(jsontext.Value(in))
		wantCode(t, name, err, CodeInvalidRequest, part)
		if got != nil {
			t.Errorf("%s: bytes beside an error", name)
		}
		if err != nil && len(err.Detail) > 500 {
			t.Errorf("%s: a detail of %d bytes", name, len(err.Detail))
		}
	}
	for _, in := range []string{nest(64), `"` + nest(200) + `"`, `"\"[[1e400"`, `"\\"`, `{"1e400":1}`, strings.Repeat("9", 308)} {
		if _, err := Canonical(jsontext.Value(in)); err != nil {
			t.Errorf("%s: %v", cut(in), err)
		}
	}
}

// numberTable is the table of the documentation: which spellings are one
// number. Each line is one class; no two classes share a digest.
var numberTable = [][]string{
	{"0", "-0", "0.0", "-0.0", "0e0", "0E+5", "0e400", "0.000"},
	{"1", "1.0", "1e0", "1.000", "10e-1", "0.1e1", "1E+0", "1.00000000000000000000000"},
	{`"1"`},
	{"-1", "-1.0", "-1e0"},
	{"100", "1e2", "1E2", "100.0"},
	{"0.1", "1e-1", "0.10", "0.10000000000000001"}, // the last is what %.17g prints
	{"0.30000000000000004"},
	{"8.500000000000002", "8.5000000000000018"},  // 8.500000000000001 is refused
	{"123456789012345.68", "123456789012345.69"}, // only the 17th digit differs
	{"123456789012345.6"},
	{"123456789012345.7"},
	{"333333333.33333329", "333333333.3333333", "333333333.33333331"},
	{"0.3"},
	{"9007199254740991", "9007199254740991.0"},
	{"9007199254740992", "9007199254740992.0", "9.007199254740992e15"},
	{"9007199254740993"},
	{"9007199254740994", "9007199254740994.0"},
	{"18446744073709551615"},
	{"18446744073709551616"},
	{"100000000000000000000", "1e20"},
	{"1000000000000000000000"}, // the same value as the next, written out: kept apart
	{"1e21", "1.0e21"},
	{"5e-324", "4.9406564584124654e-324"},
	{"1.7976931348623157e308", "1.7976931348623157E+308"},
}

func TestB54_NumbersThatAreEqual(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, class := range numberTable {
		first, err := Digest(jsontext.Value(class[0]))
		if err != nil {
			t.Errorf("%s: %v", class[0], err)
			continue
		}
		if other, taken := seen[first]; taken {
			t.Errorf("%s and %s share a digest", class[0], other)
		}
		seen[first] = class[0]
		for _, same := range class[1:] {
			if got, err := Digest(jsontext.Value(same)); err != nil || got != first {
				t.Errorf("%s: %s, %v; want the digest of %s", same, got, err, class[0])
			}
		}
	}
}

func TestB54_MembersAndText(t *testing.T) {
	t.Parallel()
	digest := func(s string) string {
		d, err := Digest(jsontext.Value(s))
		if err != nil {
			t.Errorf("%s: %v", s, err)
		}
		return d
	}
	for _, same := range [][2]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`},
		{`{"a":{"x":[1],"y":2}}`, "{\"a\" : {\"y\":2,\n\"x\":[1]}}"},
		{`"\u00e9"`, `"é"`},
		{`"\/"`, `"/"`},
		{``, `null`},
		{``, ` null `},
	} {
		if digest(same[0]) != digest(same[1]) {
			t.Errorf("%s and %s differ", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{`[1,2]`, `[2,1]`},
		{`{"a":[{"b":1},{"c":2}]}`, `{"a":[{"c":2},{"b":1}]}`},
		{`1`, `"1"`},
		{`true`, `"true"`},
		{`null`, `"null"`},
		{`null`, `{}`},
		{`{"a":null}`, `{}`},
		{`{"a":1}`, `{"A":1}`},
		{"\"\u00e9\"", "\"e\u0301\""}, // NFC and NFD: text is compared as sent
		{`[]`, `[[]]`},
		{`["a","b"]`, `["a,b"]`},
		{`9007199254740993`, `9007199254740992`},
		// One FNV-1a digest of 32 bits, semantics.md section 10.
		{`{"amount":86351,"to":"acct_7094"}`, `{"amount":112556,"to":"acct_2726"}`},
	} {
		if digest(other[0]) == digest(other[1]) {
			t.Errorf("%s and %s are one", other[0], other[1])
		}
	}
	for _, bad := range []string{`{"a":1,"a":1}`, `"\ud800"`, "1e400", "{"} {
		_, err := Digest(jsontext.Value(bad))
		wantCode(t, bad, err, CodeInvalidRequest, "request")
	}
	// Printed by sha256sum over the four bytes null and over {"a":1}.
	for in, want := range map[string]string{
		"":         "sha256-74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
		`{"a": 1}`: "sha256-015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862",
	} {
		if got := digest(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		wantCode(t, "the digest as a requestHash", CheckRequestHash(want), "")
	}
}

func TestB53_DigestSeesEachPartOfTheOutcome(t *testing.T) {
	t.Parallel()
	type outcome struct {
		kind, code, response string
		present              bool
	}
	seen := map[string]outcome{}
	for _, o := range []outcome{
		{"committed", "", "", false},
		{"committed", "", "null", true},
		{"committed", "", `""`, true},
		{"committed", "", "{}", true},
		{"committed", "", `{"a":1}`, true},
		{"committed", "", `{"a":2}`, true},
		{"committed", "", `{"a":1e400}`, true},
		{"committed", "", `{"a":1E400}`, true},
		{"failed", "", "", false},
		{"failed", "", "null", true},
		{"failed", "e", "null", true},
		{"failed", "en", "ull", false},
		{"faile", "de", "null", true},
		{"failed", "declined", "", false},
		{"failed", "declined", `{"a":1}`, true},
		{"", "faileddeclined", "", false},
	} {
		d, err := OutcomeDigest(o.kind, o.code, jsontext.Value(o.response), o.present)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		if other, taken := seen[d]; taken {
			t.Errorf("%+v and %+v share a digest", o, other)
		}
		seen[d] = o
	}
	a, _ := OutcomeDigest("committed", "", jsontext.Value(`{"a":1.0,"b":[2]}`), true)
	b, _ := OutcomeDigest("committed", "", jsontext.Value(`{ "b":[2], "a":1 }`), true)
	if a != b {
		t.Error("member order and spelling make another outcome")
	}
	// What the effect answered must be recordable, whatever numbers are in it.
	a, err := OutcomeDigest("committed", "", jsontext.Value(`{"rate":0.1234567890123456789,"b":1}`), true)
	wantCode(t, "19 digits", err, "")
	b, _ = OutcomeDigest("committed", "", jsontext.Value(`{"b":1, "rate":0.1234567890123456789}`), true)
	if a != b {
		t.Error("the same numbers, spelled alike, make another outcome")
	}
	for _, bad := range []string{"", "{", `{"a":1,"a":1e400}`, `["\ud800",1e400]`, strings.Repeat("[", 65) + strings.Repeat("]", 65)} {
		_, err := OutcomeDigest("committed", "", jsontext.Value(bad), true)
		wantCode(t, bad, err, CodeInvalidRequest, "response")
	}
}

// TestNumbersAgainstTheOracle prints random numbers in many ways: what is taken
// must come out as RFC 8785 says and be the same float64, two numbers of one
// form must be one float64 or one integer, and everything that a program prints
// from a float64 must be taken.
func TestNumbersAgainstTheOracle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(54, 8785))
	check := func(s string, mustTake bool) {
		form, err := Canonical(jsontext.Value(s))
		if err != nil {
			if mustTake {
				t.Fatalf("%s: %v", s, err)
			}
			return
		}
		if want := oracleNumber(t, s); string(form) != want {
			t.Fatalf("%s: %s, the oracle says %s", s, form, want)
		}
		if float64Of(s) != float64Of(string(form)) {
			t.Fatalf("%s: %s is another float64", s, form)
		}
		if again, err := Canonical(form); err != nil || string(again) != string(form) {
			t.Fatalf("%s: %s is not its own form: %s, %v", s, form, again, err)
		}
		if _, n := significantDigits([]byte(s)); n <= 15 && !sameValue(t, s, string(form)) {
			t.Fatalf("%s: %s is another number", s, form)
		}
	}
	for range 20_000 {
		f := math.Float64frombits(random.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		check(strconv.FormatFloat(f, 'e', -1, 64), true)
		check(strconv.FormatFloat(f, 'e', 16, 64), true) // %.17g and its like
		if e := math.Abs(f); e > 1e-5 && e < 1e15 {
			check(strconv.FormatFloat(f, 'f', -1, 64), true)
		}
		check(fmt.Sprintf("%d.%de%d", random.Int64N(1e9), random.Int64N(1e9), random.IntN(700)-350), false)
		check(strconv.FormatUint(random.Uint64(), 10)+"."+strconv.FormatUint(random.Uint64N(1000), 10), false)
		check("-"+strconv.FormatUint(random.Uint64(), 10)+strconv.FormatUint(random.Uint64N(1e18)+1e17, 10), true)
		// Amounts: up to 13 digits before the point and two after always pass.
		check(fmt.Sprintf("%d.%02d", random.Int64N(1e13), random.IntN(100)), true)
	}
}

// TestRFC8785AppendixB takes the float64 of each line, as a program would print
// it, to the text that the RFC gives.
func TestRFC8785AppendixB(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		in := strconv.FormatFloat(math.Float64frombits(bits), 'e', -1, 64)
		if got, err := Canonical(jsontext.Value(in)); err != nil || string(got) != want {
			t.Errorf("%016x %s: %s, %v; want %s", bits, in, got, err, want)
		}
		if got, err := Canonical(jsontext.Value(want)); err != nil || string(got) != want {
			t.Errorf("%s is not its own form: %s, %v", want, got, err)
		}
	}
}
