package httpapi

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/onced/onced/idem"
)

// body is what a call brought, and where it is taken apart. It is used again
// once the call is answered: nothing decoded may alias it.
type body struct {
	data    []byte
	members []idem.Member
	items   []idem.Item
}

var bodies = sync.Pool{New: func() any { return &body{data: make([]byte, 0, 1024)} }}

// free gives b, which may be nil, back.
func (b *body) free() {
	if b == nil || cap(b.data) > 64<<10 || cap(b.members) > 8<<10 {
		return
	}
	clear(b.members[:cap(b.members)])
	clear(b.items[:cap(b.items)])
	*b = body{b.data[:0], b.members[:0], b.items[:0]}
	bodies.Put(b)
}

// limitBody gives the body its 10 s, whether or not an endpoint reads it: what
// is left is read by net/http after the answer. At the body's end net/http
// takes the deadline away, so it does not end a parked wait (TestSlowBody).
func (c *call) limitBody() {
	if c.r.Body == nil || c.r.Body == http.NoBody {
		return
	}
	until := time.Now().Add(c.srv.bodyTime)
	if w, ok := c.w.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = w.SetReadDeadline(until)
		return
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(until)
}

// body reads the JSON body, which must be there unless optional is set; nil
// when it is not. Its bytes are good until it is freed.
func (c *call) body(optional bool) (*body, *idem.Error) {
	if c.r.Body == nil || c.r.ContentLength == 0 {
		if optional {
			return nil, nil
		}
		return nil, invalid("the body is empty; it must be a JSON object")
	}
	if err := checkMediaType(c.r.Header); err != nil {
		return nil, err
	}
	if c.r.ContentLength > MaxBodyBytes {
		return nil, &idem.Error{Code: idem.CodeRequestTooLarge}
	}
	b := bodies.Get().(*body)
	fault := b.readFrom(c)
	switch {
	case fault == nil:
	case isTooLarge(fault):
		b.free()
		return nil, &idem.Error{Code: idem.CodeRequestTooLarge}
	case errors.Is(fault, io.ErrUnexpectedEOF):
		b.free()
		return nil, invalid("the body ends before its Content-Length")
	default:
		b.free()
		return nil, invalid("the body could not be read within 10 s")
	}
	if optional && len(b.data) == 0 {
		b.free()
		return nil, nil
	}
	return b, nil
}

// readFrom reads the body of c, of which net/http gives no more than its
// Content-Length, if it has one.
func (b *body) readFrom(c *call) error {
	var r io.Reader = c.r.Body
	if c.r.ContentLength < 0 {
		r = http.MaxBytesReader(c.w, c.r.Body, MaxBodyBytes)
	} else if n := int(c.r.ContentLength) + 1; n > cap(b.data) {
		b.data = make([]byte, 0, n)
	}
	for {
		if len(b.data) == cap(b.data) {
			b.data = append(b.data, 0)[:len(b.data)]
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if len(b.data) > MaxBodyBytes {
			return &http.MaxBytesError{Limit: MaxBodyBytes}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
