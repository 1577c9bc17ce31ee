package httpapi

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// What programs send is plain (idem.PlainMembers) and names what the operation
// takes. Such a body is read member by member into the same struct that
// idem.Unmarshal fills, without reflection. Whatever else there is, a member
// that the operation does not take or a value of another type, is left to
// idem.Unmarshal from the start: it alone refuses, and finds the words.
// FuzzPlainBody holds the two together.

// taker is a body that can be read so. take reads one member; false leaves the
// whole body to idem.Unmarshal.
type taker interface {
	take(s *scratch, name string, v []byte) bool
}

// scratch is where the bodies of operations are decoded into. It is used again,
// so nothing of it may be kept: commands get strings, and copies of JSON.
type scratch struct {
	reserve reserveItem
	commit  commitItem
	fail    failItem
	release releaseItem
	extend  extendItem

	texts [8]string // what the bodies' pointers point to: as many as a body has
	n     int
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) free() {
	*s = scratch{}
	scratches.Put(s)
}

// decode reads in into a body of s: into without, or, with the op of a batch's
// item, into withOp, of which without is a part.
func (s *scratch) decode(in *input, withOp any, without taker) *idem.Error {
	if in.plain && s.takeAll(in, without) {
		return nil
	}
	*s = scratch{} // half filled
	return unmarshal(in, withOp, without)
}

func (s *scratch) takeAll(in *input, b taker) bool {
	for i := range in.members {
		m := &in.members[i]
		if in.batch && string(m.Name) == "op" {
			continue // it chose the decoder
		}
		if !b.take(s, string(m.Name), m.Value) {
			return false
		}
	}
	return true
}

// text takes a string; null counts as absent.
func (s *scratch) text(into **string, v []byte) bool {
	switch {
	case string(v) == "null":
		return true
	case v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 || s.n == len(s.texts):
		return false
	}
	s.texts[s.n] = string(v[1 : len(v)-1])
	*into = &s.texts[s.n]
	s.n++
	return true
}

// value takes any JSON, null as well.
func (s *scratch) value(into *jsontext.Value, v []byte) bool {
	*into = v
	return true
}

func (s *scratch) boolean(into *bool, v []byte) bool {
	*into = string(v) == "true"
	return *into || string(v) == "false" || string(v) == "null"
}

// number takes a whole number without a sign, fraction or exponent.
func (s *scratch) number(into **uint64, v []byte) bool {
	if string(v) == "null" {
		return true
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return false
	}
	*into = &n
	return true
}

func (m *common) take(s *scratch, name string, v []byte) bool {
	switch name {
	case "key":
		return s.value(&m.Key, v)
	case "idempotencyKey":
		return s.value(&m.IdempotencyKey, v)
	case "correlationId":
		return s.text(&m.CorrelationID, v)
	}
	return false
}

func (m *holder) take(s *scratch, name string, v []byte) bool {
	switch name {
	case "token":
		return s.value(&m.Token, v)
	case "expectedVersion":
		return s.number(&m.ExpectedVersion, v)
	}
	return m.common.take(s, name, v)
}

func (b *reserveBody) take(s *scratch, name string, v []byte) bool {
	switch name {
	case "operation":
		return s.text(&b.Operation, v)
	case "request":
		return s.value(&b.Request, v)
	case "requestHash":
		return s.text(&b.RequestHash, v)
	case "attemptId":
		return s.text(&b.AttemptID, v)
	case "ttl":
		return s.text(&b.TTL, v)
	case "lease":
		return s.text(&b.Lease, v)
	case "wait":
		return s.text(&b.Wait, v)
	}
	return b.common.take(s, name, v) // a fingerprint is not plain
}

func (b *commitBody) take(s *scratch, name string, v []byte) bool {
	switch name {
	case "response":
		return s.value(&b.Response, v)
	case "responseOmitted":
		return s.boolean(&b.ResponseOmitted, v)
	}
	return b.holder.take(s, name, v)
}

func (b *failBody) take(s *scratch, name string, v []byte) bool {
	switch name {
	case "errorCode":
		return s.text(&b.ErrorCode, v)
	case "response":
		return s.value(&b.Response, v)
	case "responseOmitted":
		return s.boolean(&b.ResponseOmitted, v)
	}
	return b.holder.take(s, name, v)
}

func (b *releaseBody) take(s *scratch, name string, v []byte) bool {
	if name == "reason" {
		return s.text(&b.Reason, v)
	}
	return b.holder.take(s, name, v)
}

func (b *extendBody) take(s *scratch, name string, v []byte) bool {
	if name == "lease" {
		return s.text(&b.Lease, v)
	}
	return b.holder.take(s, name, v)
}
