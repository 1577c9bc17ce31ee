package httpapi

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// wire are the options every answer is written with: stored responses keep
// their digits and escapes (api.md), maps keep one order.
var wire = json.JoinOptions(jsontext.PreserveRawStrings(true), json.Deterministic(true))

// written is a body that writes itself: those of the hot paths, where
// reflection would cost more than all the rest of an answer. Their members and
// order are idem.Answer's, idem.Record's and idem.Problem's; TestWritten holds
// them to what the JSON library writes, byte for byte.
type written interface{ write(e *encoder) }

// encoder appends JSON. The first thing that cannot be written stays in err.
type encoder struct {
	b   []byte
	err error
}

// name begins a member: n is the name in its quotes, with the colon.
func (e *encoder) name(n string) {
	if e.b[len(e.b)-1] != '{' {
		e.b = append(e.b, ',')
	}
	e.b = append(e.b, n...)
}

func (e *encoder) raw(s string) { e.b = append(e.b, s...) }

// text writes a string, textIf leaves an empty one out.
func (e *encoder) text(name, s string) {
	e.name(name)
	e.quote(s)
}

func (e *encoder) textIf(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

// quote writes a string: as it is when it is plain, else as the library does.
func (e *encoder) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			b, err := jsontext.AppendQuote(e.b, s)
			e.b = b
			e.fail(err)
			return
		}
	}
	e.b = append(e.b, '"')
	e.b = append(e.b, s...)
	e.b = append(e.b, '"')
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) number(name string, n uint64) {
	e.name(name)
	e.b = strconv.AppendUint(e.b, n, 10)
}

func (e *encoder) boolean(name string, on bool) {
	e.name(name)
	e.b = strconv.AppendBool(e.b, on)
}

// flag leaves false out.
func (e *encoder) flag(name string, on bool) {
	if on {
		e.boolean(name, true)
	}
}

// time writes a log time, "" when it is not set; timeIf leaves it out then.
func (e *encoder) time(name string, t fsm.Time) {
	e.name(name)
	e.b = append(e.b, '"')
	if t != 0 {
		e.b = idem.AppendTimestamp(e.b, t.Std())
	}
	e.b = append(e.b, '"')
}

func (e *encoder) timeIf(name string, t fsm.Time) {
	if t != 0 {
		e.time(name, t)
	}
}

// token writes a token, which is a number in a string.
func (e *encoder) token(name string, token uint64) {
	e.name(name)
	e.b = append(e.b, '"')
	e.b = strconv.AppendUint(e.b, token, 10)
	e.b = append(e.b, '"')
}

func (e *encoder) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	e.name(name)
	e.b = append(e.b, '[')
	for i, s := range list {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.quote(s)
	}
	e.b = append(e.b, ']')
}

// value writes JSON that came from a caller, nil for none: as it is when that
// is what the library would write, else by the library, which also judges it.
func (e *encoder) value(name string, v []byte) {
	if v == nil {
		return
	}
	e.name(name)
	if idem.PlainCompact(v) {
		e.b = append(e.b, v...)
		return
	}
	e.any(jsontext.Value(v))
}

// any has the library write v.
func (e *encoder) any(v any) {
	b, err := json.Marshal(v, wire)
	e.fail(err)
	e.b = append(e.b, b...)
}

// body writes a whole body.
func (e *encoder) body(v any) {
	if w, ok := v.(written); ok {
		w.write(e)
		return
	}
	e.any(v)
}
