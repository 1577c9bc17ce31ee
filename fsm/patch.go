package fsm

import (
	"fmt"
	"time"

	"github.com/onced/onced/fsm/fsmpb"
)

// FieldError names the member of a policy that is refused, as the API spells
// it.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// ApplyPatch gives p changed by patch: the preset first, then the members. A
// refused patch gives a *FieldError and p as it was. Ranges: ttl 1ms to 365
// days, retention 0 to 365 days, maxLease 1ms to 365 days, lease 1ms to
// maxLease, maxResponseBytes 0 to 256 KiB, maxRecords and maxBytes 0 (no
// limit) and up, fingerprintWindow 0 to 24h.
func ApplyPatch(p Policy, patch *fsmpb.PolicyPatch) (Policy, error) {
	if patch == nil {
		return p, nil
	}
	n := p
	if patch.Preset != nil {
		var ok bool
		if n, ok = Preset(*patch.Preset); !ok {
			return p, &FieldError{"preset", "must be strict or gateway"}
		}
	}
	for _, f := range []struct {
		name     string
		value    *int64
		min, max time.Duration
		to       *time.Duration
	}{
		{"ttl", patch.TtlUs, MinTTL, MaxTTL, &n.TTL},
		{"retention", patch.RetentionUs, 0, MaxTTL, &n.Retention},
		{"lease", patch.LeaseUs, MinTTL, MaxTTL, &n.Lease},
		{"maxLease", patch.MaxLeaseUs, MinTTL, MaxTTL, &n.MaxLease},
		{"fingerprintWindow", patch.FingerprintWindowUs, 0, 24 * time.Hour, &n.FingerprintWindow},
	} {
		switch {
		case f.value == nil:
		case *f.value < Micros(f.min) || *f.value > Micros(f.max):
			return p, &FieldError{f.name, fmt.Sprintf("must be %v to %v", f.min, f.max)}
		default:
			*f.to = Duration(*f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value *int64
		max   int64
		to    *int64
	}{
		{"maxResponseBytes", patch.MaxResponseBytes, MaxResponseBytes, &n.MaxResponseBytes},
		{"maxRecords", patch.MaxRecords, 1 << 62, &n.MaxRecords},
		{"maxBytes", patch.MaxBytes, 1 << 62, &n.MaxBytes},
	} {
		switch {
		case f.value == nil:
		case *f.value < 0 || *f.value > f.max:
			return p, &FieldError{f.name, fmt.Sprintf("must be 0 to %d", f.max)}
		default:
			*f.to = *f.value
		}
	}
	for _, f := range []struct{ value, to *bool }{
		{patch.RerunOnLeaseExpiry, &n.RerunOnLeaseExpiry},
		{patch.RerunOnExpired, &n.RerunOnExpired},
		{patch.RejectDuplicates, &n.RejectDuplicates},
		{patch.Redact, &n.Redact},
	} {
		if f.value != nil {
			*f.to = *f.value
		}
	}
	if n.Lease > n.MaxLease {
		field := "maxLease"
		if patch.LeaseUs != nil {
			field = "lease"
		}
		return p, &FieldError{field, fmt.Sprintf("lease (%v) is longer than maxLease (%v)", n.Lease, n.MaxLease)}
	}
	return n, nil
}
