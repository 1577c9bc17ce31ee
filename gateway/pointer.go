package gateway

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// Match is a JSON pointer and the value that it must have: what tells a soft
// failure inside a 2xx.
type Match struct {
	Pointer jsontext.Pointer
	Value   string // canonical JSON
}

// UnmarshalText reads "/success=false". What is not JSON after the = is a
// string: "/status=rejected".
func (m *Match) UnmarshalText(b []byte) error {
	pointer, value, ok := strings.Cut(string(b), "=")
	if !ok {
		return fmt.Errorf("%q is not POINTER=VALUE, as in /success=false", b)
	}
	if err := checkPointer(pointer); err != nil {
		return err
	}
	form, refused := idem.Canonical(jsontext.Value(value))
	if refused != nil {
		quoted, err := jsontext.AppendQuote(nil, value)
		if err != nil {
			return fmt.Errorf("%q is not valid UTF-8", value)
		}
		if form, refused = idem.Canonical(quoted); refused != nil {
			return refused
		}
	}
	*m = Match{jsontext.Pointer(pointer), string(form)}
	return nil
}

// in tells whether body, a JSON document, has the value at the pointer.
func (m *Match) in(body jsontext.Value) bool {
	v, ok := lookup(body, m.Pointer)
	if !ok {
		return false
	}
	form, refused := idem.Canonical(v)
	return refused == nil && string(form) == m.Value
}

func checkPointer(s string) error {
	if !strings.HasPrefix(s, "/") || !jsontext.Pointer(s).IsValid() {
		return fmt.Errorf("%q is no JSON pointer such as /idempotencyKey", s)
	}
	return nil
}

// lookup finds the value that p points to in a well-formed document.
func lookup(doc jsontext.Value, p jsontext.Pointer) (jsontext.Value, bool) {
	dec := jsontext.NewDecoder(strings.NewReader(string(doc)))
	for token := range p.Tokens() {
		switch dec.PeekKind() {
		case '{':
			if _, err := dec.ReadToken(); err != nil {
				return nil, false
			}
			found := false
			for dec.PeekKind() == '"' {
				name, err := dec.ReadToken()
				if err != nil {
					return nil, false
				}
				if found = name.String() == token; found {
					break
				}
				if err := dec.SkipValue(); err != nil {
					return nil, false
				}
			}
			if !found {
				return nil, false
			}
		case '[':
			if _, err := dec.ReadToken(); err != nil {
				return nil, false
			}
			for i := 0; ; i++ {
				if k := dec.PeekKind(); k == ']' || k == 0 {
					return nil, false
				}
				if fmt.Sprint(i) == token {
					break
				}
				if err := dec.SkipValue(); err != nil {
					return nil, false
				}
			}
		default:
			return nil, false
		}
	}
	v, err := dec.ReadValue()
	if err != nil {
		return nil, false
	}
	return v.Clone(), true
}
