package idem

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// plainSeeds are texts at the edges of what is plain.
var plainSeeds = []string{
	`{"b":1,"a":{"d":"x\n","c":[1,2.50,-0.5,true,false,null]}}`, `{"a":1,"b":2,"b":3}`, `{"b":1,"a":2,"b":3}`, `{ "a" : 1 }`, `{"a":1}x`, `{"a":1,}`, `[1,]`, `{"a"}`,
	"1.0", "-1.0", "0.0", "-0.0", "-0", "00", "01.5", "0.000001", "0.0000001", "-0.0000010", "100.00", "-10.50", "10.", ".5", "1.5e3", "1E5", "+1",
	"123456789012345.0", "12345678901234.50", "9007199254740993.5", "0.123456789012345", "0.1234567890123456",
	`"\u0041"`, `"\/"`, `"\"\\\b\f\n\r\t"`, `"\x"`, `"` + "\x7f" + `"`, `"é"`, `{"é":1}`, "\"\t\"", `{"a":"` + "\xff" + `"}`, `"`, `"\`, "tru", "nulls", "",
	`{"` + "a\x7f" + `":1,"a":2}`, `{"a!":1,"a":2,"":3}`, `{"A":1,"a":2,"_":3}`, `{"aa":1,"a":2,"ab":3}`, `{"":0}`,
	strings.Repeat("[", 16) + strings.Repeat("]", 16), strings.Repeat("[", 17) + strings.Repeat("]", 17), strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17),
	manyMembers(31, false), manyMembers(32, true), manyMembers(33, true), manyMembers(33, false), manyMembers(99, false),
	`{"operations":[{"op":"reserve","key":"k"},{"op":"commit"}]}`, `{"operations":[{}]}`, `{"operations":[]}`, `{"operations":[1]}`, `{"operations":[{"a":1}],"x":1}`, ` { "operations" : [ {"a":{"b":[1]}} , {"a":2 } ] } `,
}

// manyMembers writes an object of n members, in order or the other way round.
func manyMembers(n int, turned bool) string {
	var parts []string
	for i := range n {
		parts = append(parts, `"m`+strconv.Itoa(100+i)+`":`+strconv.Itoa(i))
	}
	if turned {
		slices.Reverse(parts)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// FuzzPlain holds every fast road against the slow one: what it takes, it takes
// as the slow one does.
func FuzzPlain(f *testing.F) {
	for _, s := range slices.Concat(jsonSeeds, plainSeeds) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		checkPlain(t, data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed to %q", before, data)
		}
	})
}

func checkPlain(t *testing.T, data []byte) {
	t.Helper()
	const mark = "mark"
	form, ok := appendPlain([]byte(mark), data)
	if slow, err := canonicalSlow("JSON", data); ok && (err != nil || string(form) != mark+string(slow)) {
		t.Fatalf("canonical %q: %q by the fast road, %q, %v by the slow", data, form, slow, err)
	}
	if !ok && string(form) != mark {
		t.Fatalf("canonical %q: refused, and left %q", data, form)
	}
	if PlainCompact(data) {
		v := jsontext.Value(bytes.Clone(data))
		if err := v.Compact(jsontext.PreserveRawStrings(true)); err != nil || !bytes.Equal(v, data) || faultOf("JSON", data, false) != nil {
			t.Fatalf("%q is not compact: %q, %v", data, v, err)
		}
	}
	if plainHarmless(data) {
		if out, pointers, err := redactSlow(data); err != nil || pointers != nil || !bytes.Equal(out, data) {
			t.Fatalf("%q is not harmless: %q %q %v", data, out, pointers, err)
		}
	}
	if members, ok := PlainMembers(nil, data); ok {
		if want := slowMembers(t, data); !slices.EqualFunc(members, want, sameMember) {
			t.Fatalf("%q: %q by the fast road, %q by the slow", data, members, want)
		}
	}
	if items, _, ok := PlainList(nil, nil, data, "operations"); ok {
		var b BatchRequest
		if err := Unmarshal(data, &b); err != nil || len(b.Operations) != len(items) {
			t.Fatalf("%q: %d items by the fast road, %d, %v by the slow", data, len(items), len(b.Operations), err)
		}
		for i, it := range items {
			if want := slowMembers(t, b.Operations[i]); !bytes.Equal(it.Data, b.Operations[i]) || !slices.EqualFunc(it.Members, want, sameMember) {
				t.Fatalf("%q: item %d is %q by the fast road, %q by the slow", data, i, it, want)
			}
		}
	}
}

func sameMember(a, b Member) bool {
	return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value)
}

// slowMembers reads an object with the library.
func slowMembers(t *testing.T, data []byte) (members []Member) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		t.Fatalf("%q is no object: %v", data, err)
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		m := Member{Name: []byte(name.String())}
		v, err := dec.ReadValue()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		m.Value = bytes.Clone(v)
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		t.Fatalf("%q: goes on: %v", data, err)
	}
	return members
}

// TestPlain_WhatProgramsSendIsPlain: the fast roads are taken at all, and what
// they must leave to the slow one they leave.
func TestPlain_WhatProgramsSendIsPlain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    string
		form string // "" when it is not plain
	}{
		{`{"amount":1250,"currency":"EUR"}`, `{"amount":1250,"currency":"EUR"}`},
		{`{"currency": "EUR", "amount": 12.50}`, `{"amount":12.5,"currency":"EUR"}`},
		{` [ "a\n" , null ] `, `["a\n",null]`},
		{`{"b":{"z":1,"y":[]},"a":"é"}`, `{"a":"é","b":{"y":[],"z":1}}`},
		{"0.000001", "0.000001"},
		{"0.0000001", ""},
		{"-0", ""},
		{"0.0", ""},
		{"1e2", ""},
		{"1234567890123456.5", ""},
		{`"\u0041"`, ""},
		{`"\/"`, ""},
		{`{"a":1,"a":2}`, ""},
		{`{"b":1,"a":1,"b":2}`, ""},
		{`{"\n":1}`, ""},
		{"\"\xff\"", ""},
		{`{"a":1} x`, ""},
		{manyMembers(99, false), manyMembers(99, false)},
		{manyMembers(32, true), manyMembers(32, false)},
		{manyMembers(33, true), ""},
	} {
		form, ok := appendPlain(nil, []byte(c.v))
		if ok != (c.form != "") || ok && string(form) != c.form {
			t.Errorf("%q: %q, %v; want %q", c.v, form, ok, c.form)
		}
	}
}
