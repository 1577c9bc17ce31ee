package httpapi

import (
	"net/http"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// standing is how a code shows in HTTP: the one table of the product. Detail
// is for refusals that say nothing of their own, and says what to do next.
type standing struct {
	status     int
	title      string
	detail     string
	retryAfter time.Duration // when the refusal itself names none; 0: no Retry-After
}

var codes = map[idem.Code]*standing{
	idem.CodeKeyMissing:     {400, "Idempotency key missing", "key: name the intent in the body's key, the Idempotency-Key header or a fingerprint", 0},
	idem.CodeKeyInvalid:     {400, "Idempotency key invalid", "key: use 8 to 256 of A-Z a-z 0-9 . _ : -", 0},
	idem.CodeKeyExpired:     {410, "Idempotency key expired", "the key's time is over; that is no licence to run again: look at what the intent did before taking a new key", 0},
	idem.CodeKeyConflict:    {422, "Idempotency key used for another request", "the key names another intent: send the request it was first used with, or take another key for this one", 0},
	idem.CodeInFlight:       {409, "Attempt in flight", "another attempt holds the key: ask again with the same attemptId after Retry-After, or send wait", time.Second},
	idem.CodeUncertain:      {409, "Outcome uncertain", "the holder's lease is over and its outcome is not known: its holder, a person or a probe must settle it", 0},
	idem.CodeCancelled:      {409, "Key cancelled", "the key was cancelled before it could start and never will", 0},
	idem.CodeDuplicate:      {409, "Duplicate", "the key is settled and the namespace refuses duplicates", 0},
	idem.CodeAttemptSpent:   {409, "Attempt spent", "attemptId: its claim was given back; a new attempt takes a new attemptId", 0},
	idem.CodeNotFound:       {404, "No such key", "key: the namespace has no record of it", 0},
	idem.CodeStaleToken:     {409, "Stale token", "token: another attempt holds the key, or nobody does; this one may no longer settle it", 0},
	idem.CodeTokenMissing:   {400, "Token missing", "token: send the token that reserve answered", 0},
	idem.CodeAlreadySettled: {409, "Already settled", "the key has an outcome, shown in record; nothing was overwritten", 0},
	idem.CodeStaleVersion:   {412, "Stale version", "expectedVersion: not the stored version; read the record again", 0},
	idem.CodeUnavailable:    {503, "No decision in time", "no leader or no quorum within the deadline: repeat the call with the same attemptId or token", time.Second},

	idem.CodeInvalidRequest:       {400, "Invalid request", "", 0},
	idem.CodeRequestTooLarge:      {413, "Request too large", "body: at most 1 MiB", 0},
	idem.CodeUnsupportedMediaType: {415, "Unsupported media type", "Content-Type: send application/json, in UTF-8, uncompressed", 0},
	idem.CodeUnauthorized:         {401, "Unauthorized", "Authorization: send a token that this cluster knows", 0},
	idem.CodeForbidden:            {403, "Forbidden", "the token is not good for this namespace or role", 0},
	idem.CodeNamespaceNotFound:    {404, "No such namespace", "namespace: make it first with PUT /v1/namespaces/{ns}", 0},
	idem.CodeNamespaceRetired:     {410, "Namespace retired", "namespace: it was deleted, and its name is never given out again", 0},
	idem.CodeNamespaceNotEmpty:    {409, "Namespace not empty", "the namespace holds records: repeat with ?force=true to drop them all", 0},
	idem.CodeQuotaExceeded:        {429, "Quota exceeded", "the namespace is full: new claims wait until records are swept, replays and settlements work", 5 * time.Second},
	idem.CodeOverloaded:           {503, "Overloaded", "too many calls are waiting: nothing was proposed, repeat after Retry-After", time.Second},
	idem.CodeRouteNotFound:        {404, "No such route", "the path is none of this API (GET /openapi.json lists them); a trailing slash makes another path", 0},
	idem.CodeMethodNotAllowed:     {405, "Method not allowed", "the path does not take this method: see Allow", 0},
	idem.CodeInternal:             {500, "Internal error", "a fault of the server; report it with the correlation id", 0},
}

// success is how an outcome shows in HTTP.
type success struct {
	status int
	name   string
}

var outcomes = map[fsm.Outcome]*success{
	fsm.OutcomeReserved:         {http.StatusCreated, "reserved"},
	fsm.OutcomeReplayed:         {http.StatusOK, "replayed"},
	fsm.OutcomeCommitted:        {http.StatusOK, "committed"},
	fsm.OutcomeFailed:           {http.StatusOK, "failed"},
	fsm.OutcomeReleased:         {http.StatusOK, "released"},
	fsm.OutcomeExtended:         {http.StatusOK, "extended"},
	fsm.OutcomeCancelled:        {http.StatusOK, "cancelled"},
	fsm.OutcomeResolved:         {http.StatusOK, "resolved"},
	fsm.OutcomeNamespaceCreated: {http.StatusCreated, "namespace_created"},
	fsm.OutcomeNamespaceChanged: {http.StatusOK, "namespace_changed"},
	fsm.OutcomeNamespaceDeleted: {http.StatusNoContent, "namespace_deleted"},
	fsm.OutcomeSwept:            {http.StatusOK, "swept"},
	fsm.OutcomeDone:             {http.StatusOK, "done"},
}

// standingOf never fails: a code that the table lacks is a fault of ours.
func standingOf(c idem.Code) (idem.Code, *standing) {
	if s, ok := codes[c]; ok {
		return c, s
	}
	return idem.CodeInternal, codes[idem.CodeInternal]
}
