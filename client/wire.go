package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/onced/onced/idem"
)

// encoding are the options of all JSON that is sent. Digits, member order and
// escapes of a jsontext.Value stay as they are. A time.Duration of a caller's
// value is a number of nanoseconds, as encoding/json has it: there is no other
// form that everybody agrees on, and a value must not fail to be recorded for
// it.
var encoding = json.JoinOptions(jsontext.PreserveRawStrings(true), json.Deterministic(true), jsonv1.FormatDurationAsNano(true))

// decoding are the options for callers' values; members that a value does not
// know are left out, as they may come from a newer program.
var decoding = jsonv1.FormatDurationAsNano(true)

// value gives v as JSON: none for nil, a jsontext.Value as it is.
func value(field string, v any) (jsontext.Value, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case jsontext.Value:
		return v, nil
	}
	b, err := json.Marshal(v, encoding)
	if err != nil {
		return nil, &callError{&idem.Error{Code: idem.CodeInvalidRequest, Detail: field + " cannot be written as JSON"}, err}
	}
	return b, nil
}

// body encodes a call.
func body(v any) ([]byte, error) {
	b, err := json.Marshal(v, encoding)
	if err != nil {
		return nil, &callError{&idem.Error{Code: idem.CodeInvalidRequest, Detail: "the call cannot be written as JSON"}, err}
	}
	return b, nil
}

// duration writes an optional duration; 0 leaves it to the namespace.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return idem.FormatDuration(d)
}

// path gives the API's path of something in the client's namespace.
func (c *Client) path(parts ...string) string {
	p := "/v1/namespaces/" + url.PathEscape(c.namespace)
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p
}

// decodeAnswer reads a 2xx of the data plane and holds it against what was
// asked: an answer about another key, or of another kind, is no answer. key is
// "" when a fingerprint named the record.
func decodeAnswer(b []byte, key string, outcomes ...string) (*idem.Answer, error) {
	var ans idem.Answer
	if err := json.Unmarshal(b, &ans); err != nil {
		return nil, &strange{fmt.Sprintf("the answer is not JSON as a node of onced sends it: %v", err)}
	}
	known := false
	for _, o := range outcomes {
		known = known || ans.Outcome == o
	}
	switch {
	case !known:
		return nil, &strange{fmt.Sprintf("the answer has the outcome %q", ans.Outcome)}
	case ans.Record == nil:
		return nil, &strange{"the answer has no record"}
	case key != "" && ans.Record.Key != key:
		return nil, &strange{"the answer is about another key"}
	}
	return &ans, nil
}

// leaseOf reads the lease that an answer to a call sent at sent grants.
func leaseOf(ans *idem.Answer, sent time.Time) (Lease, error) {
	d, err := time.ParseDuration(ans.LeaseRemaining)
	if err != nil || d < 0 {
		return Lease{}, &strange{fmt.Sprintf("the answer has the leaseRemaining %q", ans.LeaseRemaining)}
	}
	if mutant == "absolutelease" && ans.Record != nil {
		if at, err := time.Parse(time.RFC3339, ans.Record.LeaseExpiresAt); err == nil {
			return Lease{at.Add(-d), d}, nil
		}
	}
	return Lease{sent, d}, nil
}

// indexOf is the log index that decided, 0 when the answer does not say.
func indexOf(h http.Header) uint64 {
	n, _ := strconv.ParseUint(h.Get("Onced-Index"), 10, 64)
	return n
}
