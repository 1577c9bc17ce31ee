package httpapi

import (
	"bytes"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

func invalid(detail string) *idem.Error {
	return &idem.Error{Code: idem.CodeInvalidRequest, Detail: detail}
}

// quoted shows a caller's text in a detail: quoted, escaped and short.
func quoted(s string) string {
	const longest = 40
	if len(s) > longest {
		return strconv.QuoteToASCII(s[:longest]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// checkMediaType takes application/json, in UTF-8 if it names a charset.
func checkMediaType(h http.Header) *idem.Error {
	types := h["Content-Type"]
	if len(types) == 1 && types[0] == "application/json" && len(h["Content-Encoding"]) == 0 {
		return nil
	}
	refused := &idem.Error{Code: idem.CodeUnsupportedMediaType}
	if len(types) != 1 {
		return refused
	}
	if enc := h["Content-Encoding"]; len(enc) > 1 || len(enc) == 1 && !strings.EqualFold(enc[0], "identity") {
		return refused
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return refused
	}
	for name, v := range params {
		if name != "charset" || !strings.EqualFold(v, "utf-8") {
			return refused
		}
	}
	return nil
}

// takeTimeout reads Onced-Timeout: the call's deadline is the shorter of it
// and the server's own.
func (c *call) takeTimeout() *idem.Error {
	c.timeout = c.srv.timeout
	lines := c.r.Header["Onced-Timeout"]
	switch len(lines) {
	case 0:
		return nil
	case 1:
	default:
		return invalid("Onced-Timeout header is there more than once")
	}
	d, err := idem.ParseDuration("Onced-Timeout header", lines[0], time.Millisecond, 24*time.Hour)
	if err != nil {
		return err
	}
	c.timeout = min(c.timeout, d)
	return nil
}

// versionHeader reads If-Match: one strong entity tag, the version as ETag
// gives it. 0 without the header.
func versionHeader(h http.Header) (uint64, *idem.Error) {
	lines := h["If-Match"]
	if len(lines) == 0 {
		return 0, nil
	}
	if len(lines) == 1 {
		s := strings.Trim(lines[0], " \t")
		if len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' && s[1] != '0' && s[1] != '+' {
			if v, err := strconv.ParseUint(s[1:len(s)-1], 10, 64); err == nil {
				return v, nil
			}
		}
	}
	return 0, invalid(`If-Match header must be one version in quotes, as ETag gave it, such as "3"`)
}

// stringMember reads a member whose null must be told from its absence.
func stringMember(name string, v jsontext.Value) (s string, present bool, err *idem.Error) {
	switch {
	case v == nil:
		return "", false, nil
	case v.Kind() == 'n':
		return "", true, nil
	case v.Kind() != '"':
		return "", true, invalid(name + " must be a string")
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true, nil // what decoded v has checked the rest
	}
	text, fault := jsontext.AppendUnquote(nil, v)
	if fault != nil {
		return "", true, invalid(name + " is not a well-formed string")
	}
	return string(text), true, nil
}

// keyMembers are the two spellings of the key in a body. They are kept as they
// came because a key of null is a missing key, not an absent member that lets
// the header or a fingerprint speak (B55).
type keyMembers struct {
	Key            jsontext.Value `json:"key"`
	IdempotencyKey jsontext.Value `json:"idempotencyKey"`
}

// resolve finds the key of a call in the order of api.md: body, header; ""
// when neither is there. Two that differ, and one that is malformed, are
// refused: nothing falls back.
func (k *keyMembers) resolve(header []string) (string, *idem.Error) {
	first, has, err := stringMember("key", k.Key)
	if err != nil {
		return "", err
	}
	second, hasSecond, err := stringMember("idempotencyKey", k.IdempotencyKey)
	if err != nil {
		return "", err
	}
	key := first
	if !has {
		key = second
	}
	if has || hasSecond {
		if err := idem.CheckKey(key); err != nil {
			return "", err
		}
		if has && hasSecond && first != second {
			return "", &idem.Error{Code: idem.CodeKeyInvalid, Detail: "key and idempotencyKey differ: send one of them"}
		}
	}
	fromHeader, present, err := idem.HeaderKey(header)
	switch {
	case err != nil:
		return "", err
	case present && (has || hasSecond) && fromHeader != key:
		return "", &idem.Error{Code: idem.CodeKeyInvalid, Detail: "the body's key and the Idempotency-Key header differ: send one of them"}
	case present:
		key = fromHeader
	}
	return key, nil
}

// limitParam reads the limit parameter: 1 to most, usual when it is absent.
func (c *call) limitParam(usual, most int) (int, *idem.Error) {
	s, ok := c.query["limit"]
	if !ok {
		return usual, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || s[0] == '+' || n < 1 || n > uint64(most) {
		return 0, invalid("limit must be a whole number from 1 to " + strconv.Itoa(most))
	}
	return int(n), nil
}

// freshness reads the consistency and minIndex parameters.
func (c *call) freshness() (fsm.ReadOptions, *idem.Error) {
	o := fsm.ReadOptions{Strong: true}
	if s, ok := c.query["consistency"]; ok {
		switch s {
		case "strong":
		case "local":
			o.Strong = false
		default:
			return o, invalid("consistency must be strong or local")
		}
	}
	if s, ok := c.query["minIndex"]; ok {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return o, invalid("minIndex must be a whole number, as Onced-Index gave it")
		}
		o.MinIndex = n
	}
	return o, nil
}
