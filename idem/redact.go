package idem

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Redacted is what stands in the place of a value that was taken out, as JSON.
const Redacted = `"[REDACTED]"`

// Redact takes secrets out of a JSON response before it is stored
// (semantics.md section 8). The value of a member with one of the secret names,
// whatever it is, becomes "[REDACTED]", and so does every string, anywhere,
// that is or contains one of the secret shapes: a token inside a sentence is as
// good as a token alone, and to cut it out would leave the rest to be guessed
// at. Member names are never changed.
//
// Every byte outside the replaced values stays as it was: digits, member order,
// escapes and white space. pointers lists the replaced values as JSON pointers
// in document order; with none, out is v itself. Malformed JSON, invalid UTF-8,
// duplicate members and nesting deeper than MaxDepth are CodeInvalidRequest
// with a detail that begins with response.
func Redact(v jsontext.Value) (out jsontext.Value, pointers []string, err *Error) {
	if plainHarmless(v) {
		return v, nil, nil
	}
	return redactSlow(v)
}

// redactSlow does what Redact does, with the library's decoder.
func redactSlow(v jsontext.Value) (out jsontext.Value, pointers []string, err *Error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	copied := int64(0) // bytes of v that are in out, or stand replaced there
	var scratch []byte
	for first := true; first || dec.StackDepth() > 0; first = false {
		raw, isName, fail := readScalar(dec)
		if fail != nil {
			return nil, nil, syntaxError("response", fail)
		}
		if dec.StackDepth() > MaxDepth {
			return nil, nil, depthError("response", dec.StackPointer())
		}
		if raw == nil {
			continue
		}
		text := raw[1 : len(raw)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			scratch, _ = jsontext.AppendUnquote(scratch[:0], raw) // well-formed: the decoder read it
			text = scratch
		}
		switch {
		case isName && secretName(text):
			if raw, fail = dec.ReadValue(); fail != nil {
				return nil, nil, syntaxError("response", fail)
			}
			if dec.StackDepth()+depthOf(raw) > MaxDepth {
				return nil, nil, depthError("response", dec.StackPointer())
			}
		case isName || !secretShape(text):
			continue
		}
		end := dec.InputOffset()
		out = append(out, v[copied:end-int64(len(raw))]...)
		out = append(out, Redacted...)
		copied = end
		pointers = append(pointers, string(dec.StackPointer()))
	}
	if err := trailingData("response", v[dec.InputOffset():]); err != nil {
		return nil, nil, err
	}
	if len(pointers) == 0 {
		return v, nil, nil
	}
	return append(out, v[copied:]...), pointers, nil
}

// readScalar reads the next token and gives its raw bytes when it is a string;
// isName tells that it names a member.
func readScalar(dec *jsontext.Decoder) (raw jsontext.Value, isName bool, err error) {
	if dec.PeekKind() != '"' {
		_, err := dec.ReadToken()
		return nil, false, err
	}
	kind, length := dec.StackIndex(dec.StackDepth())
	raw, err = dec.ReadValue()
	return raw, kind == '{' && length%2 == 0, err
}
