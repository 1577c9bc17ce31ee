package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// digestScheme goes before the hex of every digest made here: the digest names
// its scheme, so another one can come beside it without a record changing what
// it means.
const digestScheme = "sha256-"

// rooms are where forms are made that nobody sees but the hash.
var rooms = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

func giveBack(room *[]byte) {
	if cap(*room) <= 64<<10 {
		rooms.Put(room)
	}
}

// Digest gives the request digest of semantics.md section 1: "sha256-" and the
// hex of SHA-256 over the canonical form of request, an absent one (no bytes)
// counting as null. What Canonical refuses is refused, with a detail that
// begins with request.
func Digest(request jsontext.Value) (string, *Error) {
	if len(request) == 0 {
		request = jsontext.Value("null")
	}
	room := rooms.Get().(*[]byte)
	defer giveBack(room)
	if form, ok := appendPlain((*room)[:0], request); ok {
		*room = form
		return digestOf(form), nil
	}
	form, err := canonicalSlow("request", request)
	if err != nil {
		return "", err
	}
	return digestOf(form), nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	var out [len(digestScheme) + 2*sha256.Size]byte
	copy(out[:], digestScheme)
	hex.Encode(out[len(digestScheme):], sum[:])
	return string(out[:])
}

// OutcomeDigest gives the digest by which "the same outcome" is judged
// (semantics.md section 4): over the kind ("committed" or "failed"; a resolve
// takes its verdict, so that it meets a commit of the same outcome), the error
// code, and the canonical form of the response after redaction and before it is
// omitted. present tells a response of null from none. Each part goes in with
// its length, so no two outcomes share their bytes.
//
// A response with a number that Canonical refuses is still taken, its numbers
// then compared by their spelling: the effect is a fact, and a number must not
// keep it from being recorded. What is not well-formed is refused, with a
// detail that begins with response.
func OutcomeDigest(kind, errorCode string, response jsontext.Value, present bool) (string, *Error) {
	room := rooms.Get().(*[]byte)
	defer giveBack(room)
	b := append((*room)[:0], "onced outcome 1\n"...)
	b = appendPart(b, kind)
	b = appendPart(b, errorCode)
	if !present {
		return digestOf(append(b, 0)), nil
	}
	b = append(b, 1)
	length := len(b)
	if whole, ok := appendPlain(append(b, make([]byte, 8)...), response); ok {
		binary.BigEndian.PutUint64(whole[length:], uint64(len(whole)-length-8))
		*room = whole
		return digestOf(whole), nil
	}
	form, err := outcomeForm(response)
	if err != nil {
		return "", err
	}
	return digestOf(appendPart(b, form)), nil
}

func appendPart[text string | []byte](b []byte, part text) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
	return append(b, part...)
}

func outcomeForm(response jsontext.Value) ([]byte, *Error) {
	form, refused := canonicalSlow("response", response)
	if refused == nil {
		return form, nil
	}
	if err := faultOf("response", response, false); err != nil {
		return nil, err
	}
	raw := response.Clone()
	err := raw.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return nil, refused
	}
	return raw, nil
}
