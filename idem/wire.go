package idem

import "github.com/go-json-experiment/json/jsontext"

// ReserveRequest is the body of POST .../reserve. Durations are Go duration
// strings. Exactly one of Key, IdempotencyKey, the Idempotency-Key header and
// Fingerprint names the key, or several that agree.
type ReserveRequest struct {
	Key            *string        `json:"key,omitempty"`
	IdempotencyKey *string        `json:"idempotencyKey,omitempty"`
	Fingerprint    *Fingerprint   `json:"fingerprint,omitempty"`
	Operation      string         `json:"operation,omitempty"`
	Request        jsontext.Value `json:"request,omitzero"`
	RequestHash    string         `json:"requestHash,omitempty"`
	AttemptID      string         `json:"attemptId,omitempty"`
	TTL            string         `json:"ttl,omitempty"`
	Lease          string         `json:"lease,omitempty"`
	Wait           string         `json:"wait,omitempty"`
	CorrelationID  string         `json:"correlationId,omitempty"`
}

// Fingerprint names a trade when the caller has no key of its own.
type Fingerprint struct {
	Kind     string         `json:"kind"` // trade
	Exchange string         `json:"exchange"`
	Symbol   string         `json:"symbol"`
	Action   string         `json:"action"`
	Quantity jsontext.Value `json:"quantity"` // number or string
	Mode     string         `json:"mode"`     // live or test
}

// SettleRequest is the body of commit, fail, release, extend, cancel and
// resolve; each takes the members that api.md lists for it and refuses others.
type SettleRequest struct {
	Key             *string        `json:"key,omitempty"`
	IdempotencyKey  *string        `json:"idempotencyKey,omitempty"`
	Token           *string        `json:"token,omitempty"`
	Response        jsontext.Value `json:"response,omitzero"`
	ResponseOmitted bool           `json:"responseOmitted,omitzero"` // commit, fail: there was a response, too large to send
	ErrorCode       string         `json:"errorCode,omitempty"`
	ExpectedVersion *uint64        `json:"expectedVersion,omitzero"`
	Lease           string         `json:"lease,omitempty"`
	Reason          string         `json:"reason,omitempty"`
	Verdict         string         `json:"verdict,omitempty"`
	Actor           string         `json:"actor,omitempty"`
	CorrelationID   string         `json:"correlationId,omitempty"`
}

// Answer is the body of every 2xx of the data plane.
type Answer struct {
	Outcome         string           `json:"outcome"`
	Token           string           `json:"token,omitempty"`
	AttemptID       string           `json:"attemptId,omitempty"`
	Attempt         uint32           `json:"attempt,omitzero"`
	Resumed         *bool            `json:"resumed,omitzero"`
	LeaseRemaining  string           `json:"leaseRemaining,omitempty"`
	PreviousAttempt *PreviousAttempt `json:"previousAttempt,omitempty"`
	Record          *Record          `json:"record,omitempty"`
}

// PreviousAttempt is the claim before a taken-over one.
type PreviousAttempt struct {
	Attempt        uint32 `json:"attempt"`
	Ended          string `json:"ended"`
	ClaimedAt      string `json:"claimedAt"`
	LeaseExpiresAt string `json:"leaseExpiresAt"`
	CorrelationID  string `json:"correlationId,omitempty"`
}

// Record is a key as callers see it. Members that a state has not are absent;
// AttemptID and Token are there for the holder and the admin role alone.
type Record struct {
	Namespace       string         `json:"namespace"`
	Key             string         `json:"key"`
	Operation       string         `json:"operation"`
	RequestHash     string         `json:"requestHash,omitempty"`
	Status          string         `json:"status"`
	Verdict         string         `json:"verdict,omitempty"` // with status expired
	Takeover        bool           `json:"takeover,omitzero"` // with status uncertain: a reserve would take it over
	Response        jsontext.Value `json:"response,omitzero"`
	ResponseOmitted bool           `json:"responseOmitted,omitzero"`
	Redacted        []string       `json:"redacted,omitempty"`
	ErrorCode       string         `json:"errorCode,omitempty"`
	AttemptID       string         `json:"attemptId,omitempty"`
	Token           string         `json:"token,omitempty"`
	Attempt         uint32         `json:"attempt"`
	Version         uint64         `json:"version"`
	CreatedAt       string         `json:"createdAt"`
	LeaseExpiresAt  string         `json:"leaseExpiresAt,omitempty"`
	SettledAt       string         `json:"settledAt,omitempty"`
	ExpiresAt       string         `json:"expiresAt,omitempty"`
	RetainedUntil   string         `json:"retainedUntil,omitempty"`
	Replays         uint64         `json:"replays"`
	LastReplayedAt  string         `json:"lastReplayedAt,omitempty"`
	CorrelationID   string         `json:"correlationId,omitempty"`
}

// RecordList is one page of records in key order.
type RecordList struct {
	Records    []Record `json:"records"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Problem is an RFC 9457 application/problem+json body.
type Problem struct {
	Type          string  `json:"type"`
	Title         string  `json:"title"`
	Status        int     `json:"status"`
	Detail        string  `json:"detail,omitempty"`
	Code          Code    `json:"code"`
	Retryable     bool    `json:"retryable"`
	SafeNewKey    bool    `json:"safeNewKey"`
	Applied       Applied `json:"applied,omitempty"`
	Key           string  `json:"key,omitempty"`
	Operation     string  `json:"operation,omitempty"`
	AttemptID     string  `json:"attemptId,omitempty"` // made here for this call: repeat the call with it
	Verdict       string  `json:"verdict,omitempty"`   // with idempotency_key_expired
	Record        *Record `json:"record,omitempty"`    // status, attempt, version and times only
	RetryAfterMs  int64   `json:"retryAfterMs,omitzero"`
	CorrelationID string  `json:"correlationId"`
}

// Policy is a namespace's policy as callers see and set it; absent members of
// a PUT stay as they are.
type Policy struct {
	Preset            *string `json:"preset,omitempty"`
	TTL               *string `json:"ttl,omitempty"`
	Retention         *string `json:"retention,omitempty"`
	Lease             *string `json:"lease,omitempty"`
	MaxLease          *string `json:"maxLease,omitempty"`
	OnLeaseExpiry     *string `json:"onLeaseExpiry,omitempty"`
	OnExpired         *string `json:"onExpired,omitempty"`
	OnDuplicate       *string `json:"onDuplicate,omitempty"`
	Redact            *bool   `json:"redact,omitzero"`
	MaxResponseBytes  *int64  `json:"maxResponseBytes,omitzero"`
	MaxRecords        *int64  `json:"maxRecords,omitzero"`
	MaxBytes          *int64  `json:"maxBytes,omitzero"`
	FingerprintWindow *string `json:"fingerprintWindow,omitempty"`
}

// Namespace is a namespace and its policy.
type Namespace struct {
	Name      string `json:"name"`
	Version   uint64 `json:"version"`
	CreatedAt string `json:"createdAt"`
	UpdatedAt string `json:"updatedAt"`
	Policy    Policy `json:"policy"`
}

// BatchRequest is the body of POST .../batch: bodies of the single calls, each
// with its op.
type BatchRequest struct {
	Operations []jsontext.Value `json:"operations"`
}

// BatchAnswer answers a batch, in the order of its operations.
type BatchAnswer struct {
	Results []BatchResult `json:"results"`
}

// BatchResult is one operation's answer as if it had been sent alone: an
// Answer with a 2xx status, a Problem with any other.
type BatchResult struct {
	Status int            `json:"status"`
	Body   jsontext.Value `json:"body"`
}

// ClusterStatus answers GET /v1/cluster.
type ClusterStatus struct {
	ClusterID string       `json:"clusterId"`
	Leader    *string      `json:"leader"`
	Term      uint64       `json:"term"`
	Quorum    Quorum       `json:"quorum"`
	Nodes     []NodeStatus `json:"nodes"`
}

// Quorum is the health of the majority.
type Quorum struct {
	Voters    int `json:"voters"`
	Reachable int `json:"reachable"`
	Needed    int `json:"needed"`
	CanLose   int `json:"canLose"`
}

// NodeStatus is one node of the cluster as the asked node sees it.
// LastContactMs, Lag and ClockOffsetMs are -1, -1 and 0 when it cannot be
// reached.
type NodeStatus struct {
	ID            string `json:"id"`
	HTTPAddress   string `json:"httpAddress"`
	PeerAddress   string `json:"peerAddress"`
	Role          string `json:"role"` // leader, follower, candidate, unreachable
	Voter         bool   `json:"voter"`
	LastContactMs int64  `json:"lastContactMs"`
	AppliedIndex  uint64 `json:"appliedIndex"`
	Lag           int64  `json:"lag"`
	StateHash     string `json:"stateHash,omitempty"` // 16 hex digits, at appliedIndex
	Version       string `json:"version,omitempty"`
	ClockOffsetMs int64  `json:"clockOffsetMs"`
}

// Check is one condition of a node's readiness, as /readyz tells it. Detail is
// one sentence for people; with OK false it says what is missing.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
