package idem

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// oracleCanonical writes the canonical form from the text of RFC 8785 and of
// ECMA-262 Number::toString, over the standard library's own decoder: nothing
// is shared with the code under test. The input must be something that
// Canonical takes.
func oracleCanonical(t testing.TB, data []byte) string {
	t.Helper()
	dec := stdjson.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("the oracle cannot read %q: %v", data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("the oracle finds data after the end of %q", data)
	}
	var b strings.Builder
	oracleValue(t, &b, v)
	return b.String()
}

func oracleValue(t testing.TB, b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case string:
		oracleString(b, v)
	case stdjson.Number:
		b.WriteString(oracleNumber(t, string(v)))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			oracleValue(t, b, e)
		}
		b.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(x, y string) int {
			return slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y)))
		})
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			oracleString(b, name)
			b.WriteByte(':')
			oracleValue(t, b, v[name])
		}
		b.WriteByte('}')
	}
}

// oracleString follows RFC 8785 section 3.2.2.2.
func oracleString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\f':
			b.WriteString(`\f`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20:
			b.WriteString(`\u00` + string("0123456789abcdef"[r>>4]) + string("0123456789abcdef"[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// oracleNumber keeps integers written out digit for digit and writes the rest
// by the steps of ECMA-262 Number::toString.
func oracleNumber(t testing.TB, s string) string {
	if !strings.ContainsAny(s, ".eE") {
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			t.Fatalf("no integer: %q", s)
		}
		return n.String()
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatalf("no float64: %q", s)
	}
	if f == 0 {
		return "0"
	}
	sign := ""
	if f < 0 {
		sign, f = "-", -f
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	e, _ := strconv.Atoi(exponent)
	n, k := e+1, len(digits)
	switch {
	case k <= n && n <= 21:
		return sign + digits + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return sign + digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return sign + "0." + strings.Repeat("0", -n) + digits
	}
	out := sign + digits[:1]
	if k > 1 {
		out += "." + digits[1:]
	}
	if n-1 < 0 {
		return out + "e-" + strconv.Itoa(1-n)
	}
	return out + "e+" + strconv.Itoa(n-1)
}

// sameValue tells whether two JSON numbers are the same number, exactly.
func sameValue(t testing.TB, a, b string) bool {
	t.Helper()
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok || !ok2 {
		t.Fatalf("no numbers: %q, %q", a, b)
	}
	return x.Cmp(y) == 0
}

func float64Of(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}
