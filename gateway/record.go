package gateway

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// recorded is an answer as it is kept in a record's response. Exactly one of
// Body and BodyBase64 is there when the body was kept, none when it was left
// out; so it is with Headers and HeadersBase64, each element of which is "Name:
// value" in base64.
type recorded struct {
	Status        int         `json:"status"`
	Headers       [][2]string `json:"headers,omitzero"`
	HeadersBase64 []string    `json:"headersBase64,omitzero"`
	Body          *string     `json:"body,omitzero"`
	BodyBase64    *string     `json:"bodyBase64,omitzero"`
}

// encode writes an answer so that it takes at most limit bytes of JSON: without
// its body if need be, or else without its headers too. kept says that body is
// all there is of it and is to be kept.
//
// Redaction must find nothing in it (semantics.md section 8: a gateway's
// recording is opaque and byte-exact). Where text would have the shape of a
// secret it is written in base64, and that in groups too short to have one.
func encode(status int, headers [][2]string, body []byte, kept bool, limit int64) jsontext.Value {
	rec := recorded{Status: status, Headers: headers}
	if !textual(headers) || redactable(recorded{Headers: headers}) {
		rec.Headers = nil
		rec.HeadersBase64 = []string{}
		for _, h := range headers {
			rec.HeadersBase64 = append(rec.HeadersBase64, grouped([]byte(h[0]+": "+h[1])))
		}
	}
	if kept {
		withBody := rec
		if utf8.Valid(body) {
			text := string(body)
			withBody.Body = &text
		}
		if withBody.Body == nil || redactable(recorded{Body: withBody.Body}) {
			text := base64.StdEncoding.EncodeToString(body)
			withBody.Body, withBody.BodyBase64 = nil, &text
			if redactable(recorded{BodyBase64: &text}) {
				text = grouped(body)
			}
		}
		if b := marshal(&withBody); int64(len(b)) <= limit {
			return b
		}
	}
	if b := marshal(&rec); int64(len(b)) <= limit {
		return b
	}
	return marshal(&recorded{Status: status, Headers: [][2]string{}})
}

func marshal(rec *recorded) jsontext.Value {
	b, err := json.Marshal(rec)
	if err != nil {
		panic(fmt.Sprintf("gateway: an answer cannot be written as JSON: %v", err)) // all of its strings are valid UTF-8
	}
	return b
}

// textual tells whether all headers can stand in JSON as they are.
func textual(headers [][2]string) bool {
	for _, h := range headers {
		if !utf8.ValidString(h[0]) || !utf8.ValidString(h[1]) {
			return false
		}
	}
	return true
}

func redactable(rec recorded) bool {
	_, found, err := idem.Redact(marshal(&rec))
	return err != nil || len(found) > 0
}

// groupLength is shorter than every secret shape.
const groupLength = 12

// grouped writes b in base64 with a space after every few characters.
func grouped(b []byte) string {
	text := base64.StdEncoding.EncodeToString(b)
	var out strings.Builder
	for i := 0; i < len(text); i += groupLength {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(text[i:min(i+groupLength, len(text))])
	}
	return out.String()
}

func ungrouped(s string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.ReplaceAll(s, " ", ""))
}

// answer is a recorded answer, ready to be given again.
type answer struct {
	status  int
	headers [][2]string
	body    []byte
	omitted bool // there was a body that was not kept
}

var errNotRecorded = errors.New("the record does not hold an answer that a gateway recorded")

// decode reads what encode wrote.
func decode(v jsontext.Value) (*answer, error) {
	var rec recorded
	if err := json.Unmarshal(v, &rec); err != nil || rec.Status < 200 || rec.Status > 599 {
		return nil, errNotRecorded
	}
	a := &answer{status: rec.Status, headers: rec.Headers}
	for _, line := range rec.HeadersBase64 {
		b, err := ungrouped(line)
		name, value, ok := strings.Cut(string(b), ": ")
		if err != nil || !ok {
			return nil, errNotRecorded
		}
		a.headers = append(a.headers, [2]string{name, value})
	}
	switch {
	case rec.Body != nil:
		a.body = []byte(*rec.Body)
	case rec.BodyBase64 != nil:
		b, err := ungrouped(*rec.BodyBase64)
		if err != nil {
			return nil, errNotRecorded
		}
		a.body = b
	default:
		a.omitted = true
	}
	return a, nil
}

// write gives the answer again.
func (a *answer) write(w http.ResponseWriter) {
	h := w.Header()
	for _, kept := range a.headers {
		if !neverKept[kept[0]] {
			h[kept[0]] = append(h[kept[0]], kept[1])
		}
	}
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // not to be guessed at: the first one had none
	}
	h.Set("Idempotent-Replayed", "true")
	if a.omitted {
		h.Set("Onced-Response-Omitted", "true")
	}
	if bodyAllowed(a.status) {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a caller that has gone asks again
}
