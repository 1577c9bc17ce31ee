package fsm

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/onced/onced/fsm/fsmpb"
)

// The state hash is a sum over everything that is stored: order does not
// matter, and a change costs one subtraction and one addition. Each thing is
// hashed over an encoding that begins with its kind and in which every text
// carries its length, so that no two things have the same.

func hashOf(b []byte) uint64 { return xxhash.Sum64(b) }

func appendUint(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

func appendTime(b []byte, t Time) []byte { return appendUint(b, uint64(t)) }

func appendDuration(b []byte, d time.Duration) []byte { return appendUint(b, uint64(d)) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBools(b []byte, flags ...bool) []byte {
	var v uint64
	for i, f := range flags {
		if f {
			v |= 1 << i
		}
	}
	return binary.AppendUvarint(b, v)
}

func appendRecord(b []byte, r *Record) []byte {
	b = append(b, 'R', byte(r.Status))
	b = appendString(b, r.Namespace)
	b = appendString(b, r.Key)
	b = appendString(b, r.Operation)
	b = appendString(b, r.RequestDigest)
	b = appendString(b, r.AttemptID)
	b = appendUint(b, r.Token)
	b = appendUint(b, uint64(r.Attempt))
	b = appendUint(b, r.Version)
	b = appendTime(b, r.CreatedAt)
	b = appendTime(b, r.ClaimedAt)
	b = appendTime(b, r.LeaseExpiresAt)
	b = appendTime(b, r.SettledAt)
	b = appendTime(b, r.ExpiresAt)
	b = appendTime(b, r.RetainedUntil)
	b = appendDuration(b, r.TTL)
	b = appendDuration(b, r.Retention)
	b = appendBools(b, r.RerunOnLeaseExpiry, r.RerunOnExpired, r.HasResponse, r.ResponseOmitted,
		r.Dropped, r.NotApplied, r.Previous != nil)
	b = binary.AppendUvarint(b, uint64(len(r.Response)))
	b = append(b, r.Response...)
	b = binary.AppendUvarint(b, uint64(len(r.Redacted)))
	for _, p := range r.Redacted {
		b = appendString(b, p)
	}
	b = appendString(b, r.ErrorCode)
	b = appendString(b, r.OutcomeDigest)
	b = appendString(b, r.CorrelationID)
	b = appendString(b, r.Fingerprint)
	if p := r.Previous; p != nil {
		b = appendUint(b, uint64(p.Attempt))
		b = appendString(b, p.Ended)
		b = appendTime(b, p.ClaimedAt)
		b = appendTime(b, p.LeaseExpiresAt)
		b = appendString(b, p.CorrelationID)
	}
	return b
}

// appendTally is apart from the record, so that a replay is counted without it.
func appendTally(b []byte, ns, key string, t tally) []byte {
	b = append(b, 'C')
	b = appendString(b, ns)
	b = appendString(b, key)
	b = appendUint(b, t.replays)
	return appendTime(b, t.last)
}

func appendNamespace(b []byte, ns *Namespace) []byte {
	p := &ns.Policy
	b = append(b, 'N')
	b = appendString(b, ns.Name)
	b = appendUint(b, ns.Version)
	b = appendBools(b, ns.Retired, p.RerunOnLeaseExpiry, p.RerunOnExpired, p.RejectDuplicates, p.Redact)
	b = appendTime(b, ns.Horizon)
	b = appendTime(b, ns.CreatedAt)
	b = appendTime(b, ns.UpdatedAt)
	b = appendDuration(b, p.TTL)
	b = appendDuration(b, p.Retention)
	b = appendDuration(b, p.Lease)
	b = appendDuration(b, p.MaxLease)
	b = appendDuration(b, p.FingerprintWindow)
	b = appendUint(b, uint64(p.MaxResponseBytes))
	b = appendUint(b, uint64(p.MaxRecords))
	b = appendUint(b, uint64(p.MaxBytes))
	return appendString(b, ns.lastChangeID)
}

func appendFingerprint(b []byte, p fingerprint) []byte {
	b = append(b, 'F')
	b = appendString(b, p.namespace)
	b = appendString(b, p.text)
	return appendString(b, p.key)
}

func appendNode(b []byte, n *nodeState) []byte {
	b = append(b, 'O')
	b = appendString(b, n.id)
	b = appendUint(b, n.replaySequence)
	b = appendString(b, n.node.GetInstance())
	b = appendString(b, n.node.GetHttpAddress())
	b = appendString(b, n.node.GetPeerAddress())
	return appendString(b, n.node.GetVersion())
}

func appendAudit(b []byte, e *fsmpb.AuditEntry) []byte {
	b = append(b, 'A')
	b = appendUint(b, e.Sequence)
	b = appendTime(b, Time(e.TimeUs))
	b = appendUint(b, e.Index)
	b = appendString(b, e.Action)
	b = appendString(b, e.Namespace)
	b = appendString(b, e.Key)
	b = appendString(b, e.Actor)
	b = appendString(b, e.Reason)
	b = appendString(b, e.Detail)
	return appendString(b, e.CorrelationId)
}
