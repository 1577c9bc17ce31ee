package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// bodyTime is how long a caller may take to send the body of a guarded request.
const bodyTime = 30 * time.Second

// incoming is a guarded request with its body read.
type incoming struct {
	r    *http.Request
	body []byte

	looked  bool // doc and refused are there
	doc     jsontext.Value
	refused *idem.Error
}

// read takes the whole body, at most limit bytes of it.
func read(w http.ResponseWriter, r *http.Request, limit int64) (*incoming, *idem.Error) {
	in := &incoming{r: r}
	if r.Body == nil || r.Body == http.NoBody {
		return in, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime))
	buf := bytes.Buffer{}
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge(limit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &idem.Error{Code: idem.CodeInvalidRequest, Detail: "the body ends before its Content-Length"}
	case err != nil:
		return nil, &idem.Error{Code: idem.CodeInvalidRequest, Detail: "the body could not be read"}
	}
	in.body = buf.Bytes()
	return in, nil
}

// isJSON tells whether the request says that its body is JSON.
func (in *incoming) isJSON() bool {
	media, _, err := mime.ParseMediaType(in.r.Header.Get("Content-Type"))
	return err == nil && len(in.r.Header["Content-Encoding"]) == 0 &&
		(media == "application/json" || strings.HasSuffix(media, "+json"))
}

// json gives the body as a JSON document, nil when it is none. One that says it
// is JSON and is malformed, a member twice included, is refused: whoever reads
// it behind us might read another key. An object that does not say so is looked
// into all the same, because whoever reads it behind us may.
func (in *incoming) json() (jsontext.Value, *idem.Error) {
	if in.looked {
		return in.doc, in.refused
	}
	in.looked = true
	trimmed := bytes.TrimLeft(in.body, " \t\r\n")
	says := in.isJSON()
	if len(trimmed) == 0 || !says && trimmed[0] != '{' {
		return nil, nil
	}
	doc := jsontext.Value(in.body)
	if !doc.IsValid() {
		if says || trimmed[0] == '{' {
			in.refused = &idem.Error{Code: idem.CodeInvalidRequest, Detail: "the body is not well-formed JSON (or has a member twice)"}
		}
		return nil, in.refused
	}
	in.doc = doc
	return doc, nil
}

// member finds a value of the body by its pointer.
func (in *incoming) member(pointer string) (jsontext.Value, bool, *idem.Error) {
	doc, err := in.json()
	if err != nil || doc == nil {
		return nil, false, err
	}
	v, ok := lookup(doc, jsontext.Pointer(pointer))
	return v, ok, nil
}

// request is what the digest of a request is made over: the query, the type of
// the body, and the body's own digest, in canonical form where it is JSON that
// has one and byte for byte where not.
type request struct {
	Query    string   `json:"query"`
	Type     []string `json:"contentType"`
	Encoding []string `json:"contentEncoding,omitempty"`
	JSON     string   `json:"json,omitempty"`
	Raw      string   `json:"raw,omitempty"`
}

func (in *incoming) request() *request {
	q := &request{
		Query: text(in.r.URL.RawQuery), Type: texts(in.r.Header["Content-Type"]), Encoding: texts(in.r.Header["Content-Encoding"]),
	}
	if in.isJSON() {
		if sum, err := idem.Digest(in.body); err == nil && len(in.body) > 0 {
			q.JSON = sum
			return q
		}
	}
	sum := sha256.Sum256(in.body)
	q.Raw = hex.EncodeToString(sum[:])
	return q
}

// text gives s in a form that JSON takes, and that is another one for every s
// that is no text.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

func texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

// operation is the write's stable name: the rule's, or the method and the path
// as it was sent, without the query. A long one is named by its digest.
func (r *Rule) operation(q *http.Request) string {
	if r.Operation != "" {
		return r.Operation
	}
	name := strings.ToUpper(q.Method) + " " + q.URL.EscapedPath()
	if idem.CheckOperation(name) == nil {
		return name
	}
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(name, "?"))
	sum, _ := idem.Digest(quoted) // a JSON string always has one
	return strings.ToUpper(q.Method) + " " + sum
}
