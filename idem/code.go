package idem

// Code is what programs switch on: the code member of a problem. Codes are
// never renamed and never reused.
type Code string

// The codes of semantics.md and api.md.
const (
	CodeKeyMissing     Code = "idempotency_key_missing"
	CodeKeyInvalid     Code = "idempotency_key_invalid"
	CodeKeyExpired     Code = "idempotency_key_expired"
	CodeKeyConflict    Code = "idempotency_key_conflict"
	CodeInFlight       Code = "idempotency_in_flight"
	CodeUncertain      Code = "idempotency_uncertain"
	CodeCancelled      Code = "idempotency_cancelled"
	CodeDuplicate      Code = "idempotency_duplicate"
	CodeAttemptSpent   Code = "idempotency_attempt_spent"
	CodeNotFound       Code = "idempotency_not_found"
	CodeStaleToken     Code = "idempotency_stale_token"
	CodeTokenMissing   Code = "idempotency_token_missing"
	CodeAlreadySettled Code = "idempotency_already_settled"
	CodeStaleVersion   Code = "idempotency_stale_version"
	CodeUnavailable    Code = "idempotency_unavailable"

	CodeInvalidRequest       Code = "invalid_request"
	CodeRequestTooLarge      Code = "request_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeUnauthorized         Code = "unauthorized"
	CodeForbidden            Code = "forbidden"
	CodeNamespaceNotFound    Code = "namespace_not_found"
	CodeNamespaceRetired     Code = "namespace_retired"
	CodeNamespaceNotEmpty    Code = "namespace_not_empty"
	CodeQuotaExceeded        Code = "quota_exceeded"
	CodeOverloaded           Code = "overloaded"
	CodeRouteNotFound        Code = "route_not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeInternal             Code = "internal"
)

// Retryable tells whether the same call can succeed later by waiting alone.
func (c Code) Retryable() bool {
	switch c {
	case CodeInFlight, CodeQuotaExceeded, CodeOverloaded, CodeUnavailable:
		return true
	}
	return false
}

// SafeNewKey tells whether the key is proved to have started nothing and to be
// unable to: only then may a caller take a new key without looking first.
func (c Code) SafeNewKey() bool {
	switch c {
	case CodeKeyMissing, CodeKeyInvalid, CodeCancelled:
		return true
	}
	return false
}
