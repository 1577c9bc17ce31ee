package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// CodeUpstreamUnreachable is the code of a 502 for a request of which surely
// nothing reached the upstream: the key was given back, and may be sent again.
const CodeUpstreamUnreachable idem.Code = "upstream_unreachable"

// CodeUpstreamFailed is the code of a 502 or 504 for an unguarded request: it
// may have reached the upstream, or not.
const CodeUpstreamFailed idem.Code = "upstream_failed"

// problemText has the status and the title of every problem that a Guard
// answers with by itself.
var problemText = map[idem.Code]struct {
	status int
	title  string
}{
	idem.CodeKeyMissing:      {http.StatusBadRequest, "Idempotency key missing"},
	idem.CodeKeyInvalid:      {http.StatusBadRequest, "Idempotency key invalid"},
	idem.CodeInvalidRequest:  {http.StatusBadRequest, "Invalid request"},
	idem.CodeRequestTooLarge: {http.StatusRequestEntityTooLarge, "Request too large"},
	idem.CodeKeyExpired:      {http.StatusGone, "Idempotency key expired"},
	idem.CodeKeyConflict:     {http.StatusUnprocessableEntity, "Idempotency key used for another request"},
	idem.CodeInFlight:        {http.StatusConflict, "Attempt in flight"},
	idem.CodeUncertain:       {http.StatusConflict, "Outcome uncertain"},
	idem.CodeCancelled:       {http.StatusConflict, "Idempotency key cancelled"},
	idem.CodeDuplicate:       {http.StatusConflict, "Duplicate request"},
	idem.CodeQuotaExceeded:   {http.StatusTooManyRequests, "Quota exceeded"},
	idem.CodeOverloaded:      {http.StatusServiceUnavailable, "Overloaded"},
	idem.CodeUnavailable:     {http.StatusServiceUnavailable, "Idempotency unavailable"},
	idem.CodeRouteNotFound:   {http.StatusNotFound, "Route not found"},
	CodeUpstreamUnreachable:  {http.StatusBadGateway, "Upstream unreachable"},
	CodeUpstreamFailed:       {http.StatusBadGateway, "Upstream failed"},
}

// problem is an idem.Problem as callers of a Guard see it: nothing of the record
// but where it stands.
type problem struct {
	Type          string         `json:"type"`
	Title         string         `json:"title"`
	Status        int            `json:"status"`
	Detail        string         `json:"detail,omitempty"`
	Code          idem.Code      `json:"code"`
	Retryable     bool           `json:"retryable"`
	SafeNewKey    bool           `json:"safeNewKey"`
	Key           string         `json:"key,omitempty"`
	Verdict       string         `json:"verdict,omitempty"`
	Record        *problemRecord `json:"record,omitempty"`
	RetryAfterMs  int64          `json:"retryAfterMs,omitzero"`
	CorrelationID string         `json:"correlationId,omitempty"`
}

type problemRecord struct {
	Status         string `json:"status"`
	Attempt        uint32 `json:"attempt"`
	Version        uint64 `json:"version"`
	CreatedAt      string `json:"createdAt"`
	LeaseExpiresAt string `json:"leaseExpiresAt,omitempty"`
	ExpiresAt      string `json:"expiresAt,omitempty"`
}

func tooLarge(limit int64) *idem.Error {
	return &idem.Error{Code: idem.CodeRequestTooLarge, Detail: "the body is larger than the " + strconv.FormatInt(limit, 10) + " bytes that are guarded"}
}

// refusalOf turns why nothing ran into what the caller is told. What is the
// Guard's own trouble with the cluster (its token, its namespace, a fault) is no
// business of the caller, and no decision: it is unavailable.
func refusalOf(err error) *idem.Error {
	p, ok := errors.AsType[*idem.Error](err)
	if !ok {
		return &idem.Error{Code: idem.CodeUnavailable}
	}
	if _, ours := problemText[p.Code]; !ours {
		return &idem.Error{Code: idem.CodeUnavailable, Detail: "the gateway is not let to decide this; nothing was run", RetryAfter: p.RetryAfter}
	}
	return p
}

// writeProblem answers with a problem; status 0 is that of the code.
func writeProblem(w http.ResponseWriter, status int, e *idem.Error, correlation string) {
	text, known := problemText[e.Code]
	if !known {
		text.status, text.title = http.StatusServiceUnavailable, "Idempotency unavailable"
	}
	if status == 0 {
		status = text.status
	}
	p := problem{
		Type: "https://onced.dev/problems/" + string(e.Code), Title: text.title, Status: status, Detail: strings.ToValidUTF8(e.Detail, "?"),
		Code: e.Code, Retryable: e.Code.Retryable() || e.Code == CodeUpstreamUnreachable, SafeNewKey: e.Code.SafeNewKey(),
		Key: e.Key, Verdict: e.Verdict, CorrelationID: correlation,
	}
	if r := e.Record; r != nil {
		p.Record = &problemRecord{r.Status, r.Attempt, r.Version, r.CreatedAt, r.LeaseExpiresAt, r.ExpiresAt}
	}
	retryAfter := e.RetryAfter
	if retryAfter == 0 && (status == http.StatusServiceUnavailable || e.Code == idem.CodeInFlight) {
		retryAfter = time.Second
	}
	h := w.Header()
	if retryAfter > 0 {
		p.RetryAfterMs = retryAfter.Milliseconds()
		h.Set("Retry-After", strconv.FormatInt(int64((retryAfter+time.Second-1)/time.Second), 10))
	}
	body, err := json.Marshal(&p)
	if err != nil {
		panic(err) // it is made of valid texts and numbers
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Correlation-Id", correlation)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that has gone asks again
}
