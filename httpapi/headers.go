package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// The values of headers that are always the same. Nobody writes into the list
// that a header map holds: Set and Add make another.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	typeText    = []string{"text/plain; charset=utf-8"}
	noStore     = []string{"no-store"}
)

// lines holds the values of an answer's headers: each is a list of one, and one
// made for each would cost as much as the body.
type lines struct {
	values [12]string
	n      int
}

// set gives the header name, in its canonical spelling, the one value v.
func (l *lines) set(h http.Header, name, v string) {
	if l.n == len(l.values) {
		h[name] = []string{v}
		return
	}
	l.values[l.n] = v
	l.n++
	h[name] = l.values[l.n-1 : l.n : l.n]
}

// headers sets what every answer carries.
func (c *call) headers(h http.Header) {
	h["Cache-Control"] = noStore
	c.lines.set(h, "X-Correlation-Id", c.correlation)
	c.lines.set(h, "Onced-Node", c.srv.node.ID())
	if leader := c.srv.node.Leader(); leader != "" {
		c.lines.set(h, "Onced-Leader", leader)
	}
}

// reply sets what rep carries; length is that of its body, -1 for none.
func (l *lines) reply(h http.Header, rep *reply, length int) {
	if rep.key != "" {
		l.set(h, "Idempotency-Key", rep.key)
	}
	if rep.replayed != "" {
		l.set(h, "Idempotent-Replayed", rep.replayed)
	}
	if rep.allow != "" {
		l.set(h, "Allow", rep.allow)
	}
	var m made
	if length >= 0 {
		m.number("Content-Length", uint64(length))
	}
	if rep.expires != 0 {
		m.time("Idempotency-Expires", rep.expires)
	}
	if rep.etag != 0 {
		m.add(append(strconv.AppendUint(append(m.text(), '"'), rep.etag, 10), '"'), "Etag")
	}
	if rep.at != 0 {
		m.time("Onced-Time", rep.at)
		m.number("Onced-Index", rep.index)
	}
	if rep.retryAfter > 0 {
		seconds := (rep.retryAfter + time.Second - 1) / time.Second
		m.number("Retry-After", uint64(max(1, seconds)))
	}
	text, from := string(m.text()), 0
	for _, p := range m.parts[:m.n] {
		l.set(h, p.name, text[from:p.end])
		from = p.end
	}
}

// made are header values that are written here, one behind the other, so that
// one string holds them all.
type made struct {
	room  [160]byte
	parts [6]struct {
		name string
		end  int
	}
	n int
}

// text is what is written so far.
func (m *made) text() []byte {
	if m.n == 0 {
		return m.room[:0]
	}
	return m.room[:m.parts[m.n-1].end]
}

// add takes text, which a value for name was appended to. 160 bytes hold the
// six longest.
func (m *made) add(text []byte, name string) {
	m.parts[m.n].name, m.parts[m.n].end = name, len(text)
	m.n++
}

func (m *made) number(name string, n uint64) { m.add(strconv.AppendUint(m.text(), n, 10), name) }

func (m *made) time(name string, t fsm.Time) {
	m.add(idem.AppendTimestamp(m.text(), t.Std()), name)
}
