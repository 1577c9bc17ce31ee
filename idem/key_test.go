package idem

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestKeyLengths(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{1: false, 7: false, 8: true, 9: true, 255: true, 256: true, 257: false, 1 << 20: false} {
		code := Code("")
		if !ok {
			code = CodeKeyInvalid
		}
		wantCode(t, fmt.Sprintf("%d characters", n), CheckKey(strings.Repeat("k", n)), code)
	}
	wantCode(t, "7", CheckKey("seven-7"), CodeKeyInvalid, "key has 7 characters", "8 to 256")
	wantCode(t, "257", CheckKey(strings.Repeat("k", 257)), CodeKeyInvalid, "257 characters")
	wantCode(t, "runes", CheckKey("äöü"), CodeKeyInvalid, "3 characters", "6 bytes")
}

func TestKeyEveryByte(t *testing.T) {
	t.Parallel()
	grammar := regexp.MustCompile(`^[A-Za-z0-9._:-]$`)
	for c := range 256 {
		b := string([]byte{byte(c)})
		for _, at := range []int{0, 4, 8} {
			key := "abcdefgh"[:at] + b + "abcdefgh"[at:]
			if grammar.MatchString(b) {
				wantCode(t, fmt.Sprintf("%q", key), CheckKey(key), "")
				continue
			}
			wantCode(t, fmt.Sprintf("%q", key), CheckKey(key), CodeKeyInvalid,
				fmt.Sprintf("0x%02x", c), fmt.Sprintf("offset %d", at))
		}
	}
}

func TestB55_NoKeyIsMissingNotShared(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", " ", "        ", strings.Repeat(" ", 300), "\t\n\r ", "\u00a0\u2003\u3000"} {
		wantCode(t, fmt.Sprintf("key %q", s), CheckKey(s), CodeKeyMissing, "key is missing")
		_, present, err := HeaderKey([]string{s})
		if !present {
			t.Errorf("header %q: an empty line counts as no line, and the fingerprint would be taken", s)
		}
		wantCode(t, fmt.Sprintf("header %q", s), err, CodeKeyMissing, "Idempotency-Key header")
	}
	for _, s := range []string{`""`, `"   "`, ` "" `} {
		_, present, err := HeaderKey([]string{s})
		if !present {
			t.Errorf("header %q not present", s)
		}
		wantCode(t, "header "+s, err, CodeKeyMissing, "Idempotency-Key header")
	}
	var r ReserveRequest
	if err := Unmarshal([]byte(`{"key":null}`), &r); err != nil || r.Key != nil {
		t.Errorf("key null: %v, %v; want an absent key", r.Key, err)
	}
	if err := Unmarshal([]byte(`{"key":""}`), &r); err != nil || r.Key == nil {
		t.Errorf("an empty key must stay told from an absent one, or another source would be taken silently: %v, %v", r.Key, err)
	}
}

func TestHeaderKey(t *testing.T) {
	t.Parallel()
	const key = "order-2026:0001"
	tests := []struct {
		name   string
		values []string
		key    string
		code   Code
		part   string
	}{
		{"bare", []string{key}, key, "", ""},
		{"quoted", []string{`"` + key + `"`}, key, "", ""},
		{"bare, spaces around", []string{" \t" + key + "  "}, key, "", ""},
		{"quoted, spaces around", []string{"  \"" + key + "\"\t"}, key, "", ""},
		{"spaces inside the quotes are the key's", []string{`" ` + key + `"`}, "", CodeKeyInvalid, "0x20"},
		{"two lines", []string{key, "other-key-0001"}, "", CodeKeyInvalid, "more than once"},
		{"the same line twice", []string{key, key}, "", CodeKeyInvalid, "more than once"},
		{"a second, empty line", []string{key, ""}, "", CodeKeyInvalid, "more than once"},
		{"bare list", []string{key + ", other-key-0001"}, "", CodeKeyInvalid, "list"},
		{"list of equals", []string{key + "," + key}, "", CodeKeyInvalid, "list"},
		{"list with an empty member", []string{key + ","}, "", CodeKeyInvalid, "list"},
		{"quoted list", []string{`"` + key + `", "other-key-0001"`}, "", CodeKeyInvalid, "list"},
		{"comma inside the quotes", []string{`"a,b,c,d,e"`}, "", CodeKeyInvalid, "','"},
		{"open quote", []string{`"` + key}, "", CodeKeyInvalid, "does not close"},
		{"quote at the end only", []string{key + `"`}, "", CodeKeyInvalid, "0x22"},
		{"quote in the middle", []string{`"order"-0001"`}, "", CodeKeyInvalid, "after the closing quote"},
		{"single quotes", []string{"'" + key + "'"}, "", CodeKeyInvalid, "0x27"},
		{"parameters", []string{`"` + key + `";v=1`}, "", CodeKeyInvalid, "parameters"},
		{"known escape, forbidden character", []string{`"order\"0001"`}, "", CodeKeyInvalid, "0x22"},
		{"known escape, backslash", []string{`"order\\0001"`}, "", CodeKeyInvalid, "0x5c"},
		{"unknown escape", []string{`"order\-0001"`}, "", CodeKeyInvalid, "backslash"},
		{"escape at the end", []string{`"order-0001\`}, "", CodeKeyInvalid, "backslash"},
		{"control inside the quotes", []string{"\"order\x010001\""}, "", CodeKeyInvalid, "0x01"},
		{"not ASCII inside the quotes", []string{"\"order\xff0001\""}, "", CodeKeyInvalid, "0xff"},
		{"not ASCII", []string{"order\xff0001"}, "", CodeKeyInvalid, "0xff"},
		{"token of RFC 8941 with a colon byte sequence", []string{":b3JkZXI=:"}, "", CodeKeyInvalid, "0x3d"},
		{"too short", []string{"seven-7"}, "", CodeKeyInvalid, "7 characters"},
		{"too short, quoted", []string{`"seven-7"`}, "", CodeKeyInvalid, "7 characters"},
		{"longest, quoted", []string{`"` + strings.Repeat("k", 256) + `"`}, strings.Repeat("k", 256), "", ""},
		{"too long", []string{strings.Repeat("k", 257)}, "", CodeKeyInvalid, "257 characters"},
	}
	for _, tt := range tests {
		got, present, err := HeaderKey(tt.values)
		if !present || got != tt.key {
			t.Errorf("%s: %q, present %v; want %q", tt.name, got, present, tt.key)
		}
		wantCode(t, tt.name, err, tt.code, tt.part)
		if err != nil && !strings.Contains(err.Detail, "Idempotency-Key header") {
			t.Errorf("%s: detail %q does not name the header", tt.name, err.Detail)
		}
	}
	for _, none := range [][]string{nil, {}} {
		if got, present, err := HeaderKey(none); got != "" || present || err != nil {
			t.Errorf("no line: %q, %v, %v", got, present, err)
		}
	}
}

func TestBirthOfUUIDv7(t *testing.T) {
	t.Parallel()
	// The example of RFC 9562, appendix A.6: 2022-02-22T19:22:22Z.
	const rfc = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	for _, key := range []string{rfc, strings.ToUpper(rfc), "017F22e2-79B0-7cc3-B8c4-dc0c0c07398F"} {
		if ms, ok := BirthOfUUIDv7(key); !ok || ms != 1645557742000 {
			t.Errorf("%s: %d, %v; want 1645557742000", key, ms, ok)
		}
	}
	for key, want := range map[string]int64{
		"00000000-0000-7000-8000-000000000000": 0,
		"ffffffff-ffff-7fff-bfff-ffffffffffff": 1<<48 - 1,
	} {
		if ms, ok := BirthOfUUIDv7(key); !ok || ms != want {
			t.Errorf("%s: %d, %v; want %d", key, ms, ok, want)
		}
	}
	for _, key := range []string{
		"", "order-2026:0001",
		"017f22e2-79b0-4cc3-98c4-dc0c0c07398f",   // version 4
		"017f22e2-79b0-8cc3-98c4-dc0c0c07398f",   // version 8
		"017f22e2-79b0-7cc3-18c4-dc0c0c07398f",   // variant 0
		"017f22e2-79b0-7cc3-c8c4-dc0c0c07398f",   // variant 110
		"017f22e279b07cc398c4dc0c0c07398f",       // no hyphens
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398",    // one short
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",  // one long
		"urn:uuid:" + rfc,                        // only contains one
		"017f22e2:79b0-7cc3-98c4-dc0c0c07398f",   // no hyphen at 8
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398g",   // no hexadecimal digit
		"-17f22e2-79b0-7cc3-98c4-dc0c0c07398f",   // a hyphen for a digit
		"{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", // braces
	} {
		if ms, ok := BirthOfUUIDv7(key); ok || ms != 0 {
			t.Errorf("%s: born at %d", key, ms)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	for _, token := range []uint64{1, 9, 10, 1764533000000001, 1<<53 + 1, 1<<64 - 1} {
		if got, err := ParseToken(FormatToken(token)); err != nil || got != token {
			t.Errorf("%d: %d, %v", token, got, err)
		}
	}
	for _, s := range []string{"", " ", "\t"} {
		_, err := ParseToken(s)
		wantCode(t, s, err, CodeTokenMissing, "token")
	}
	for _, s := range []string{"0", "00", "01", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "1_000", "null", "18446744073709551616", "99999999999999999999", "１"} {
		got, err := ParseToken(s)
		wantCode(t, s, err, CodeInvalidRequest, "token")
		if got != 0 {
			t.Errorf("%q: %d beside an error", s, got)
		}
	}
}
