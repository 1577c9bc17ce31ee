package fsm

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onced/onced/fsm/fsmpb"
)

// Records are nearly all of a snapshot, so their frames are written and read
// without the reflection of the protobuf package: the same bytes (fsm.proto,
// message Record), several times faster.

// appendRecordFrame appends r as a deterministic marshal of recordToProto's
// message does.
func appendRecordFrame(b []byte, r *Record) []byte {
	b = appendTextField(b, 1, r.Namespace)
	b = appendTextField(b, 2, r.Key)
	b = appendTextField(b, 3, r.Operation)
	b = appendTextField(b, 4, r.RequestDigest)
	b = appendUintField(b, 5, uint64(r.Status))
	b = appendTextField(b, 6, r.AttemptID)
	b = appendFixedField(b, 7, r.Token)
	b = appendUintField(b, 8, uint64(r.Attempt))
	b = appendUintField(b, 9, r.Version)
	b = appendUintField(b, 10, uint64(r.CreatedAt))
	b = appendUintField(b, 11, uint64(r.ClaimedAt))
	b = appendUintField(b, 12, uint64(r.LeaseExpiresAt))
	b = appendUintField(b, 13, uint64(r.SettledAt))
	b = appendUintField(b, 14, uint64(r.ExpiresAt))
	b = appendUintField(b, 15, uint64(r.RetainedUntil))
	b = appendUintField(b, 16, uint64(Micros(r.TTL)))
	b = appendUintField(b, 17, uint64(Micros(r.Retention)))
	b = appendBoolField(b, 18, r.RerunOnLeaseExpiry)
	b = appendBoolField(b, 19, r.RerunOnExpired)
	if len(r.Response) > 0 {
		b = protowire.AppendTag(b, 20, protowire.BytesType)
		b = protowire.AppendBytes(b, r.Response)
	}
	b = appendBoolField(b, 21, r.HasResponse)
	b = appendBoolField(b, 22, r.ResponseOmitted)
	b = appendBoolField(b, 23, r.Dropped)
	for _, p := range r.Redacted {
		b = protowire.AppendTag(b, 24, protowire.BytesType)
		b = protowire.AppendString(b, p)
	}
	b = appendTextField(b, 25, r.ErrorCode)
	b = appendTextField(b, 26, r.OutcomeDigest)
	b = appendUintField(b, 27, r.Replays)
	b = appendUintField(b, 28, uint64(r.LastReplayedAt))
	b = appendTextField(b, 29, r.CorrelationID)
	if p := r.Previous; p != nil {
		var room [128]byte
		q := appendUintField(room[:0], 1, uint64(p.Attempt))
		q = appendTextField(q, 2, p.Ended)
		q = appendUintField(q, 3, uint64(p.ClaimedAt))
		q = appendUintField(q, 4, uint64(p.LeaseExpiresAt))
		q = appendTextField(q, 5, p.CorrelationID)
		b = protowire.AppendTag(b, 30, protowire.BytesType)
		b = protowire.AppendBytes(b, q)
	}
	b = appendTextField(b, 31, r.Fingerprint)
	return appendBoolField(b, 32, r.NotApplied)
}

func appendTextField(b []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendUintField(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func appendFixedField(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), v)
}

func appendBoolField(b []byte, n protowire.Number, v bool) []byte {
	return appendUintField(b, n, protowire.EncodeBool(v))
}

var errRecordFrame = errors.New("no record that this version knows")

// readRecordFrame reads what appendRecordFrame wrote. It refuses what it does
// not know. The response is part of b.
func readRecordFrame(b []byte, r *Record) error {
	*r = Record{}
	text := string(b)
	return eachField(b, text, func(n protowire.Number, f field) (ok bool) {
		switch n {
		case 1:
			return f.text(&r.Namespace)
		case 2:
			return f.text(&r.Key)
		case 3:
			return f.text(&r.Operation)
		case 4:
			return f.text(&r.RequestDigest)
		case 5:
			r.Status = Status(int32(f.v))
		case 6:
			return f.text(&r.AttemptID)
		case 7:
			r.Token = f.v
			return f.kind == protowire.Fixed64Type
		case 8:
			r.Attempt = uint32(f.v)
		case 9:
			r.Version = f.v
		case 10:
			r.CreatedAt = Time(f.v)
		case 11:
			r.ClaimedAt = Time(f.v)
		case 12:
			r.LeaseExpiresAt = Time(f.v)
		case 13:
			r.SettledAt = Time(f.v)
		case 14:
			r.ExpiresAt = Time(f.v)
		case 15:
			r.RetainedUntil = Time(f.v)
		case 16:
			r.TTL = Duration(int64(f.v))
		case 17:
			r.Retention = Duration(int64(f.v))
		case 18:
			r.RerunOnLeaseExpiry = f.v != 0
		case 19:
			r.RerunOnExpired = f.v != 0
		case 20:
			r.Response = f.b[:len(f.b):len(f.b)]
			return f.kind == protowire.BytesType
		case 21:
			r.HasResponse = f.v != 0
		case 22:
			r.ResponseOmitted = f.v != 0
		case 23:
			r.Dropped = f.v != 0
		case 24:
			var s string
			ok := f.text(&s)
			r.Redacted = append(r.Redacted, s)
			return ok
		case 25:
			return f.text(&r.ErrorCode)
		case 26:
			return f.text(&r.OutcomeDigest)
		case 27:
			r.Replays = f.v
		case 28:
			r.LastReplayedAt = Time(f.v)
		case 29:
			return f.text(&r.CorrelationID)
		case 30:
			p := new(fsmpb.PreviousAttempt)
			if f.kind != protowire.BytesType || r.Previous != nil || decodeFrame(f.b, p) != nil {
				return false
			}
			r.Previous = previousFromProto(p)
			return true
		case 31:
			return f.text(&r.Fingerprint)
		case 32:
			r.NotApplied = f.v != 0
		default:
			return false
		}
		return f.kind == protowire.VarintType
	})
}

// field is one field of a message: v of a number, b and s of anything else.
type field struct {
	kind protowire.Type
	v    uint64
	b    []byte
	s    string
}

func (f *field) text(to *string) bool {
	*to = f.s
	return f.kind == protowire.BytesType && utf8.ValidString(f.s)
}

// eachField visits the fields of b, until visit refuses one. text is b too.
func eachField(b []byte, text string, visit func(n protowire.Number, f field) bool) error {
	for at := 0; at < len(b); {
		n, kind, size := protowire.ConsumeTag(b[at:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		at += size
		f := field{kind: kind}
		switch kind {
		case protowire.VarintType:
			f.v, size = protowire.ConsumeVarint(b[at:])
		case protowire.Fixed64Type:
			f.v, size = protowire.ConsumeFixed64(b[at:])
		case protowire.BytesType:
			f.b, size = protowire.ConsumeBytes(b[at:])
			if size >= 0 {
				f.s = text[at+size-len(f.b) : at+size]
			}
		default:
			return errRecordFrame
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		at += size
		if !visit(n, f) {
			return errRecordFrame
		}
	}
	return nil
}
