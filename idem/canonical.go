package idem

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 64

// Canonical gives the canonical form of one JSON value: RFC 8785 (no white
// space, members in the order of their UTF-16 names, one spelling for each
// string and number), except that integers written out keep their digits
// whatever their size, where RFC 8785 makes 9007199254740993 and
// 9007199254740992 the same. Arrays keep their order; text is not normalised.
// v itself is left as it is.
//
// CodeInvalidRequest, with the place as a JSON pointer, for: malformed JSON,
// trailing data, invalid UTF-8, lone surrogates, duplicate members, nesting
// deeper than MaxDepth, and numbers that the form would confuse with another
// (see numberFault).
func Canonical(v jsontext.Value) ([]byte, *Error) { return canonical("JSON", v) }

func canonical(field string, v jsontext.Value) ([]byte, *Error) {
	if form, ok := appendPlain(make([]byte, 0, len(v)), v); ok {
		return form, nil
	}
	return canonicalSlow(field, v)
}

// canonicalSlow has the library make the form: the one truth, which appendPlain
// never differs from.
func canonicalSlow(field string, v jsontext.Value) ([]byte, *Error) {
	if suspicious(v) {
		if err := faultOf(field, v, true); err != nil {
			return nil, err
		}
	}
	out := jsontext.Value(bytes.Clone(v))
	if err := out.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		if err := faultOf(field, v, true); err != nil {
			return nil, err
		}
		return nil, syntaxError(field, err)
	}
	return out, nil
}

// suspicious looks over the bytes of v for a number or a depth that Canonical
// refuses. It is exact on well-formed JSON; of other input it may say anything,
// since the library refuses that.
func suspicious(v []byte) bool {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			i = skipString(v, i)
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(v) && numberBytes[v[end]] {
				end++
			}
			if numberFault(v[i:end]) != "" {
				return true
			}
			i = end - 1
		}
	}
	return false
}

var numberBytes = byteSet("0123456789+-.eE")

// skipString gives the index of the quote that closes the string opened at i.
func skipString(v []byte, i int) int {
	for i++; i < len(v) && v[i] != '"'; i++ {
		if v[i] == '\\' {
			i++
		}
	}
	return i
}

// depthOf gives how deep arrays and objects nest in well-formed JSON; a scalar
// has depth 0.
func depthOf(v []byte) (deepest int) {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			i = skipString(v, i)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// faultOf walks v token by token and names the first fault and its place; nil
// when there is none. It is the slow road, taken when something is wrong.
func faultOf(field string, v []byte, numbers bool) *Error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for first := true; first || dec.StackDepth() > 0; first = false {
		tok, err := dec.ReadToken()
		if err != nil {
			return syntaxError(field, err)
		}
		if dec.StackDepth() > MaxDepth {
			return depthError(field, dec.StackPointer())
		}
		if numbers && tok.Kind() == '0' {
			if fault := numberFault([]byte(tok.String())); fault != "" {
				return invalid(at(field, dec.StackPointer()) + ": the number " + cut(tok.String()) + " " + fault)
			}
		}
	}
	return trailingData(field, v[dec.InputOffset():])
}

// trailingData refuses anything but white space after the end of a value.
func trailingData(field string, rest []byte) *Error {
	if rest = bytes.TrimLeft(rest, " \t\r\n"); len(rest) > 0 {
		return invalid(field + " goes on after its end, with " + byteName(rest[0]))
	}
	return nil
}

func depthError(field string, pointer jsontext.Pointer) *Error {
	return invalid(at(field, pointer) + " nests deeper than " + strconv.Itoa(MaxDepth) + " levels")
}

// syntaxError turns what the JSON library says into a sentence about field.
func syntaxError(field string, err error) *Error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return invalid(field + " is empty or ends too early")
		}
		return invalid(field + " is not well-formed JSON")
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid(field + " has the member " + cut(string(syntax.JSONPointer)) + " more than once")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return invalid(field + " is empty or ends too early")
	}
	return invalid(at(field, syntax.JSONPointer) + " is not well-formed JSON: " + strings.TrimPrefix(syntax.Err.Error(), "jsontext: "))
}

// at names a place inside field, as a JSON pointer, unless it is the whole.
func at(field string, pointer jsontext.Pointer) string {
	if pointer == "" {
		return field
	}
	return field + " at " + cut(string(pointer))
}

// cut keeps a part of a caller's text short enough for a sentence, and UTF-8.
func cut(s string) string {
	const longest = 100
	if len(s) <= longest {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}
