package fsm

import (
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// The way between the machine's types and the formats that outlive it.

// recordToProto fills p, whose Previous is used again when there is one.
func recordToProto(p *fsmpb.Record, r *Record) {
	p.Namespace = r.Namespace
	p.Key = r.Key
	p.Operation = r.Operation
	p.RequestDigest = r.RequestDigest
	p.Status = r.Status
	p.AttemptId = r.AttemptID
	p.Token = r.Token
	p.Attempt = r.Attempt
	p.Version = r.Version
	p.CreatedAtUs = int64(r.CreatedAt)
	p.ClaimedAtUs = int64(r.ClaimedAt)
	p.LeaseExpiresAtUs = int64(r.LeaseExpiresAt)
	p.SettledAtUs = int64(r.SettledAt)
	p.ExpiresAtUs = int64(r.ExpiresAt)
	p.RetainedUntilUs = int64(r.RetainedUntil)
	p.TtlUs = Micros(r.TTL)
	p.RetentionUs = Micros(r.Retention)
	p.RerunOnLeaseExpiry = r.RerunOnLeaseExpiry
	p.RerunOnExpired = r.RerunOnExpired
	p.Response = r.Response
	p.HasResponse = r.HasResponse
	p.ResponseOmitted = r.ResponseOmitted
	p.Dropped = r.Dropped
	p.Redacted = r.Redacted
	p.ErrorCode = r.ErrorCode
	p.OutcomeDigest = r.OutcomeDigest
	p.Replays = r.Replays
	p.LastReplayedAtUs = int64(r.LastReplayedAt)
	p.CorrelationId = r.CorrelationID
	p.Previous = nil
	if q := r.Previous; q != nil {
		p.Previous = &fsmpb.PreviousAttempt{
			Attempt: q.Attempt, Ended: q.Ended, ClaimedAtUs: int64(q.ClaimedAt),
			LeaseExpiresAtUs: int64(q.LeaseExpiresAt), CorrelationId: q.CorrelationID,
		}
	}
	p.Fingerprint = r.Fingerprint
	p.NotApplied = r.NotApplied
}

func recordFromProto(p *fsmpb.Record) *Record {
	r := &Record{
		Namespace:          p.Namespace,
		Key:                p.Key,
		Operation:          p.Operation,
		RequestDigest:      p.RequestDigest,
		Status:             p.Status,
		AttemptID:          p.AttemptId,
		Token:              p.Token,
		Attempt:            p.Attempt,
		Version:            p.Version,
		CreatedAt:          Time(p.CreatedAtUs),
		ClaimedAt:          Time(p.ClaimedAtUs),
		LeaseExpiresAt:     Time(p.LeaseExpiresAtUs),
		SettledAt:          Time(p.SettledAtUs),
		ExpiresAt:          Time(p.ExpiresAtUs),
		RetainedUntil:      Time(p.RetainedUntilUs),
		TTL:                Duration(p.TtlUs),
		Retention:          Duration(p.RetentionUs),
		RerunOnLeaseExpiry: p.RerunOnLeaseExpiry,
		RerunOnExpired:     p.RerunOnExpired,
		Response:           p.Response,
		HasResponse:        p.HasResponse,
		ResponseOmitted:    p.ResponseOmitted,
		Dropped:            p.Dropped,
		Redacted:           p.Redacted,
		ErrorCode:          p.ErrorCode,
		OutcomeDigest:      p.OutcomeDigest,
		Replays:            p.Replays,
		LastReplayedAt:     Time(p.LastReplayedAtUs),
		CorrelationID:      p.CorrelationId,
		Fingerprint:        p.Fingerprint,
		NotApplied:         p.NotApplied,
	}
	if q := p.Previous; q != nil {
		r.Previous = previousFromProto(q)
	}
	return r
}

func previousFromProto(q *fsmpb.PreviousAttempt) *PreviousAttempt {
	return &PreviousAttempt{
		Attempt: q.Attempt, Ended: q.Ended, ClaimedAt: Time(q.ClaimedAtUs),
		LeaseExpiresAt: Time(q.LeaseExpiresAtUs), CorrelationID: q.CorrelationId,
	}
}

func policyToProto(p *Policy) *fsmpb.Policy {
	return &fsmpb.Policy{
		TtlUs: Micros(p.TTL), RetentionUs: Micros(p.Retention),
		LeaseUs: Micros(p.Lease), MaxLeaseUs: Micros(p.MaxLease),
		RerunOnLeaseExpiry: p.RerunOnLeaseExpiry, RerunOnExpired: p.RerunOnExpired,
		RejectDuplicates: p.RejectDuplicates, Redact: p.Redact,
		MaxResponseBytes: p.MaxResponseBytes, MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes,
		FingerprintWindowUs: Micros(p.FingerprintWindow),
	}
}

func policyFromProto(p *fsmpb.Policy) Policy {
	return Policy{
		TTL: Duration(p.GetTtlUs()), Retention: Duration(p.GetRetentionUs()),
		Lease: Duration(p.GetLeaseUs()), MaxLease: Duration(p.GetMaxLeaseUs()),
		RerunOnLeaseExpiry: p.GetRerunOnLeaseExpiry(), RerunOnExpired: p.GetRerunOnExpired(),
		RejectDuplicates: p.GetRejectDuplicates(), Redact: p.GetRedact(),
		MaxResponseBytes: p.GetMaxResponseBytes(), MaxRecords: p.GetMaxRecords(), MaxBytes: p.GetMaxBytes(),
		FingerprintWindow: Duration(p.GetFingerprintWindowUs()),
	}
}

func namespaceToProto(ns *Namespace) *fsmpb.Namespace {
	return &fsmpb.Namespace{
		Name: ns.Name, Version: ns.Version, Policy: policyToProto(&ns.Policy), Retired: ns.Retired,
		HorizonUs: int64(ns.Horizon), CreatedAtUs: int64(ns.CreatedAt), UpdatedAtUs: int64(ns.UpdatedAt),
		LastChangeId: ns.lastChangeID,
	}
}

func namespaceFromProto(p *fsmpb.Namespace) *Namespace {
	return &Namespace{
		Name: p.Name, Version: p.Version, Policy: policyFromProto(p.Policy), Retired: p.Retired,
		Horizon: Time(p.HorizonUs), CreatedAt: Time(p.CreatedAtUs), UpdatedAt: Time(p.UpdatedAtUs),
		lastChangeID: p.LastChangeId,
	}
}

// Proto gives r as it travels between nodes. Response bytes are shared, not
// copied.
func (r *Result) Proto() *fsmpb.Result {
	p := &fsmpb.Result{
		Outcome: r.Outcome, Code: string(r.Code), Detail: r.Detail,
		Resumed: r.Resumed, Changed: r.Changed,
		LeaseRemainingUs: Micros(r.LeaseRemaining), RetryAfterUs: Micros(r.RetryAfter),
		Dropped: uint32(r.Dropped), Tombstoned: uint32(r.Tombstoned), Remaining: uint64(r.Remaining),
	}
	if r.Record != nil {
		p.Record = new(fsmpb.Record)
		recordToProto(p.Record, r.Record)
	}
	if ns := r.Namespace; ns != nil {
		p.Namespace = &fsmpb.NamespaceView{
			Name: ns.Name, Version: ns.Version, Policy: policyToProto(&ns.Policy),
			CreatedAtUs: int64(ns.CreatedAt), UpdatedAtUs: int64(ns.UpdatedAt),
		}
	}
	return p
}

// ResultFromProto reads what Proto gave: all of it but a namespace's horizon
// and retirement, which no caller is shown.
func ResultFromProto(p *fsmpb.Result) Result {
	r := Result{
		Outcome: p.GetOutcome(), Code: idem.Code(p.GetCode()), Detail: p.GetDetail(),
		Resumed: p.GetResumed(), Changed: p.GetChanged(),
		LeaseRemaining: Duration(p.GetLeaseRemainingUs()), RetryAfter: Duration(p.GetRetryAfterUs()),
		Dropped: int(p.GetDropped()), Tombstoned: int(p.GetTombstoned()), Remaining: int(p.GetRemaining()),
	}
	if p.GetRecord() != nil {
		r.Record = recordFromProto(p.Record)
	}
	if v := p.GetNamespace(); v != nil {
		r.Namespace = &Namespace{
			Name: v.Name, Version: v.Version, Policy: policyFromProto(v.Policy),
			CreatedAt: Time(v.CreatedAtUs), UpdatedAt: Time(v.UpdatedAtUs),
		}
	}
	return r
}
