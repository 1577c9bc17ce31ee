package fsm

import "time"

// Policy is what a namespace decides by (semantics.md section 8).
type Policy struct {
	TTL                time.Duration // how long an outcome is replayed, from the settlement
	Retention          time.Duration // how long the verdict outlives the ttl
	Lease              time.Duration // default lease of a claim
	MaxLease           time.Duration // longer leases are cut to it
	RerunOnLeaseExpiry bool          // onLeaseExpiry: rerun
	RerunOnExpired     bool          // onExpired: rerun
	RejectDuplicates   bool          // onDuplicate: reject
	Redact             bool
	MaxResponseBytes   int64
	MaxRecords         int64 // 0: no limit
	MaxBytes           int64 // 0: no limit
	FingerprintWindow  time.Duration
}

// The limits of every policy.
const (
	MinTTL            = time.Millisecond
	MaxTTL            = 365 * 24 * time.Hour
	MaxResponseBytes  = 256 << 10
	DefaultNamespace  = "default"
	AuditKept         = 10_000
	MaxSweep          = 10_000
	DefaultSweepLimit = 1_000
)

// Preset gives the named policy: "strict" or "gateway".
func Preset(name string) (Policy, bool) {
	switch name {
	case "strict":
		return Policy{
			TTL: 24 * time.Hour, Retention: 7 * 24 * time.Hour,
			Lease: 30 * time.Second, MaxLease: time.Hour,
			Redact: true, MaxResponseBytes: 64 << 10, FingerprintWindow: 30 * time.Second,
		}, true
	case "gateway":
		return Policy{
			TTL: 5 * time.Minute, Retention: 0,
			Lease: 5 * time.Minute, MaxLease: 5 * time.Minute,
			RerunOnExpired: true, RejectDuplicates: true,
			MaxResponseBytes: 64 << 10, FingerprintWindow: 30 * time.Second,
		}, true
	}
	return Policy{}, false
}

// Namespace is one tenant: its name, policy and horizon. Immutable, as Record.
type Namespace struct {
	Name      string
	Version   uint64 // +1 at every change of the policy
	Policy    Policy
	Retired   bool // deleted: the name is never given out again
	Horizon   Time // keys born at or before it are expired for ever; 0: none
	CreatedAt Time
	UpdatedAt Time

	lastChangeID string
	hash         uint64
}
