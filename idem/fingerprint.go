package idem

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxMinuteDigits is how long the epoch minute of a log time can get: log time
// is int64 microseconds, so its minutes end at 153,722,867,280.
const maxMinuteDigits = 12

// MaxFormLength is the longest fingerprint form, in bytes: the machine appends
// ":" and the epoch minute, and the whole must still be a key.
const MaxFormLength = MaxKeyLength - 1 - maxMinuteDigits

// Form gives trade:{exchange}:{symbol}:{ACTION}:{quantity}:{live|test}, the key
// without its minute (api.md "Key resolution", semantics.md section 9).
//
// The action is upper-cased, ASCII letters only, so that no table of Unicode
// decides what is one trade. A quantity given as a JSON number is taken in its
// canonical form (1.50 and 1.5 are one), one given as a string as it is. When a
// value has a character outside the key grammar, or ":", or the form would be
// longer than MaxFormLength, the four values become h: and the hex SHA-256 of
// the canonical JSON of [exchange, symbol, ACTION, quantity], all four as
// strings. A hashed form has four parts and a plain one six, so they never
// meet. The mode stays outside the hash: live and test never share a key, and
// whoever reads the key sees which it is.
//
// An absent or blank member, another kind than trade and another mode than live
// or test are CodeInvalidRequest naming fingerprint.<member>.
func (f *Fingerprint) Form() (string, *Error) {
	if f == nil {
		return "", invalid("fingerprint is missing")
	}
	if f.Kind != "trade" {
		return "", invalid("fingerprint.kind is " + shown(f.Kind) + `; it must be "trade"`)
	}
	quantity, err := quantityText(f.Quantity)
	if err != nil {
		return "", err
	}
	names := [4]string{"exchange", "symbol", "action", "quantity"}
	values := [4]string{f.Exchange, f.Symbol, upperASCII(f.Action), quantity}
	plain, length := true, len("trade::::")+len(":live")
	for i, value := range values {
		if strings.TrimSpace(value) == "" {
			return "", invalid("fingerprint." + names[i] + " is missing")
		}
		length += len(value) + 1
		plain = plain && plainPart(value)
	}
	if f.Mode != "live" && f.Mode != "test" {
		return "", invalid("fingerprint.mode is " + shown(f.Mode) + `; it must be "live" or "test"`)
	}
	form := "trade:" + strings.Join(values[:], ":") + ":" + f.Mode
	if plain && len(form) <= MaxFormLength {
		return form, nil
	}
	sum, err := hashValues(names, values)
	if err != nil {
		return "", err
	}
	return "trade:h:" + sum + ":" + f.Mode, nil
}

func quantityText(v jsontext.Value) (string, *Error) {
	if len(v) == 0 {
		return "", invalid("fingerprint.quantity is missing")
	}
	form, err := canonical("fingerprint.quantity", v)
	if err != nil {
		return "", err
	}
	switch jsontext.Value(form).Kind() {
	case '0':
		return string(form), nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, form)
		if err != nil {
			return "", invalid("fingerprint.quantity is not a well-formed string")
		}
		return string(text), nil
	case 'n':
		return "", invalid("fingerprint.quantity is missing")
	}
	return "", invalid("fingerprint.quantity must be a number or a string")
}

// plainPart tells whether a value can stand in the key as it is.
func plainPart(s string) bool {
	for i := range len(s) {
		if s[i] == ':' || !keyBytes[s[i]] {
			return false
		}
	}
	return true
}

func upperASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

func hashValues(names, values [4]string) (string, *Error) {
	list := []byte{'['}
	for i, value := range values {
		if i > 0 {
			list = append(list, ',')
		}
		var err error
		if list, err = jsontext.AppendQuote(list, value); err != nil {
			return "", invalid("fingerprint." + names[i] + " is not valid UTF-8")
		}
	}
	form, err := canonical("fingerprint", append(list, ']'))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:]), nil
}
