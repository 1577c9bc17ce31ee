package idem

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonSeeds is where the JSON fuzz targets start.
var jsonSeeds = []string{
	"null", "0", "-0", "1.0", "1e400", "9007199254740993", "9007199254740993.0", "333333333.33333329", "5e-324", "1e21",
	`{"b":1,"a":[2,{"d":null,"c":true}]}`, `{"a":1,"a":2}`, `{"\ufb33":1,"\ud83d\ude00":2}`, `"\ud800"`, "\"\xff\"", `"\u0061\/\n"`,
	"[[[[]]]]", strings.Repeat("[", 65) + strings.Repeat("]", 65), "1 2", "", `{"a":`, " { } ",
}

// FuzzCanonical: what is taken has the oracle's form, is its own form again,
// stays the same with its members the other way round, and every road to it
// (Digest, the walk for faults) agrees.
func FuzzCanonical(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		form, err := Canonical(data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed", before)
		}
		if slow := faultOf("JSON", data, true); (slow == nil) != (err == nil) {
			t.Fatalf("%q: %v by one road, %v by the other", data, err, slow)
		}
		if err != nil {
			if err.Code != CodeInvalidRequest || err.Detail == "" || form != nil {
				t.Fatalf("%q: %q %v", data, form, err)
			}
			return
		}
		if want := oracleCanonical(t, data); string(form) != want {
			t.Fatalf("%q: %s, the oracle says %s", data, form, want)
		}
		if again, err := Canonical(form); err != nil || !bytes.Equal(again, form) {
			t.Fatalf("%q: the form %s is not its own form: %s, %v", data, form, again, err)
		}
		turned := reversed(t, data)
		if other, err := Canonical(turned); err != nil || !bytes.Equal(other, form) {
			t.Fatalf("%q and %q differ: %s and %s, %v", data, turned, form, other, err)
		}
	})
}

// reversed writes v with the members of every object the other way round.
func reversed(t *testing.T, v jsontext.Value) jsontext.Value {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	var read func() []byte
	read = func() []byte {
		switch dec.PeekKind() {
		case '{', '[':
			open, err := dec.ReadToken()
			if err != nil {
				t.Fatal(err)
			}
			object := open.Kind() == '{'
			var parts [][]byte
			for k := dec.PeekKind(); k != '}' && k != ']'; k = dec.PeekKind() {
				part := read()
				if object {
					part = append(append(part, ':'), read()...)
				}
				parts = append(parts, part)
			}
			if _, err := dec.ReadToken(); err != nil {
				t.Fatal(err)
			}
			if !object {
				return append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
			}
			for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
				parts[i], parts[j] = parts[j], parts[i]
			}
			return append(append([]byte{'{'}, bytes.Join(parts, []byte{','})...), '}')
		}
		raw, err := dec.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(raw)
	}
	return read()
}

// FuzzHeaderKey: whatever comes out of the header is a key, is what stands in
// the header, and its bare and quoted forms are one; two lines are never one.
func FuzzHeaderKey(f *testing.F) {
	for _, s := range []string{
		"order-0001", `"order-0001"`, ` "order-0001" `, "", `""`, `"`, `"order\"0001"`, `"order\\0001"`, "a,b", `"order-0001", "b"`,
		`"order-0001";v=1`, strings.Repeat("k", 257), "order\xff0001", "key with spaces", "ключ-0001",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, present, err := HeaderKey([]string{line})
		if !present {
			t.Fatalf("%q is no line", line)
		}
		if err != nil {
			if key != "" || (err.Code != CodeKeyInvalid && err.Code != CodeKeyMissing) {
				t.Fatalf("%q: %q, %v", line, key, err)
			}
			if s := strings.Trim(line, " \t"); CheckKey(s) == nil {
				t.Fatalf("%q is a key and was refused: %v", s, err)
			}
			return
		}
		if bad := CheckKey(key); bad != nil {
			t.Fatalf("%q gives %q: %v", line, key, bad)
		}
		if s := strings.Trim(line, " \t"); s != key && s != `"`+key+`"` {
			t.Fatalf("%q gives another key: %q", line, key)
		}
		for _, same := range []string{key, `"` + key + `"`, "\t" + key + " "} {
			if got, _, err := HeaderKey([]string{same}); got != key || err != nil {
				t.Fatalf("%q: %q, %v; want %q", same, got, err, key)
			}
		}
		if _, _, err := HeaderKey([]string{line, line}); err == nil || err.Code != CodeKeyInvalid {
			t.Fatalf("two lines %q: %v", line, err)
		}
	})
}

// FuzzRedact: no secret survives, nothing else is lost, and a second time
// changes nothing.
func FuzzRedact(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	for _, s := range []string{stellarSeed, awsKey, githubToken, stripeKey, jwt, pemKey} {
		quoted, _ := jsontext.AppendQuote(nil, "x "+s+" y")
		f.Add([]byte(`{"a":[` + string(quoted) + `],"Api-Key" : {"b":1} }`))
		f.Add([]byte(quoted))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		out, pointers, err := Redact(data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed", before)
		}
		if bad := faultOf("response", data, false); (bad == nil) != (err == nil) {
			t.Fatalf("%q: %v, the walk says %v", data, err, bad)
		}
		if err != nil {
			return
		}
		checkRedacted(t, data, out, pointers)
		again, same, err := Redact(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q, then %q: %v", out, again, err)
		}
		if len(same) > len(pointers) {
			t.Fatalf("a second time finds more: %q, %q", pointers, same)
		}
	})
}
