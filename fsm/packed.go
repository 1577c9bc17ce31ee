package fsm

import (
	"encoding/binary"
	"time"
)

// packed is a record as memory holds it. It is not a format that outlives the
// process. Its head is what the trees compare and the counts need:
//
//	at        8 bytes, big-endian: placeOf
//	flags     2 bytes, little-endian
//	space     varint: the number of the namespace in this machine
//	key       varint length, bytes
//	ttl, retention
//
// Then come the counters, the times, each as its distance from what it
// commonly is, the texts (texts.go), and the response.
type packed []byte

const (
	flagStatus             uint16 = 7 // the stored status
	flagRerunOnLeaseExpiry uint16 = 1 << (iota + 2)
	flagRerunOnExpired
	flagHasResponse
	flagResponseOmitted
	flagDropped
	flagNotApplied
	flagPrevious
	flagRare // fields that few records have
)

func (b packed) at() Time       { return Time(binary.BigEndian.Uint64(b)) }
func (b packed) flags() uint16  { return binary.LittleEndian.Uint16(b[8:]) }
func (b packed) status() Status { return Status(b.flags() & flagStatus) }

// id gives the namespace's number, the key, and what comes after them.
func (b packed) id() (space uint32, key, rest []byte) {
	v, rest := uvarint(b[spaceAt:])
	n, rest := uvarint(rest)
	return uint32(v), rest[:n], rest[n:]
}

// spaceAt is the offset of the namespace's number.
const spaceAt = 8 + 2

// shortKey gives the key when its place is plain: the number of the namespace
// and the length of the key are a byte each.
func (b packed) shortKey() (key []byte, ok bool) {
	if b[spaceAt]|b[spaceAt+1] >= 0x80 {
		return nil, false
	}
	return b[spaceAt+2 : spaceAt+2+int(b[spaceAt+1])], true
}

// lapse is when a pending claim made under onLeaseExpiry rerun is removed,
// should its namespace still say rerun then.
func (b packed) lapse() Time {
	_, _, rest := b.id()
	d := unpacker{rest}
	return b.at().Add(d.duration() + d.duration())
}

// lifetime chooses the pages.
func (b packed) lifetime() lifetime {
	flags := b.flags()
	switch Status(flags & flagStatus) {
	case Pending:
		return short
	case Committed, Failed:
		if flags&flagDropped == 0 {
			return usual
		}
	}
	return long
}

// placeOf is where r stands in its order over time: the lease end while it is
// pending, else when a sweep next has something to do to it.
func placeOf(r *Record) Time {
	switch {
	case r.Status == Pending:
		return r.LeaseExpiresAt
	case r.Settled() && !r.Dropped:
		return min(r.ExpiresAt, r.RetainedUntil)
	}
	return r.RetainedUntil
}

func appendHead(b []byte, at Time, flags uint16, space uint32, key string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.AppendUvarint(b, uint64(space))
	b = binary.AppendUvarint(b, uint64(len(key)))
	return append(b, key...)
}

// pack appends r, of the namespace that has this number.
func pack(b []byte, r *Record, space uint32) []byte {
	at := placeOf(r)
	rare := len(r.Redacted) > 0 || r.ErrorCode != "" || r.CorrelationID != "" || r.Fingerprint != ""
	flags := uint16(r.Status)
	for _, f := range [...]struct {
		set bool
		bit uint16
	}{
		{r.RerunOnLeaseExpiry, flagRerunOnLeaseExpiry},
		{r.RerunOnExpired, flagRerunOnExpired},
		{r.HasResponse, flagHasResponse},
		{r.ResponseOmitted, flagResponseOmitted},
		{r.Dropped, flagDropped},
		{r.NotApplied, flagNotApplied},
		{r.Previous != nil, flagPrevious},
		{rare, flagRare},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	b = appendHead(b, at, flags, space, r.Key)
	b = packDuration(b, r.TTL)
	b = packDuration(b, r.Retention)
	b = binary.AppendUvarint(b, r.Version)
	b = binary.AppendUvarint(b, uint64(r.Attempt))
	common := commonTimes(at, flags, r.TTL, r.Retention)
	b = binary.AppendVarint(b, int64(r.SettledAt-common.settled))
	b = binary.AppendVarint(b, int64(r.ExpiresAt-common.expires))
	b = binary.AppendVarint(b, int64(r.RetainedUntil-common.retained))
	b = binary.AppendVarint(b, int64(r.CreatedAt-common.created))
	b = binary.AppendVarint(b, int64(r.ClaimedAt-r.CreatedAt))
	b = binary.AppendVarint(b, int64(r.LeaseExpiresAt-r.ClaimedAt))
	b = binary.AppendVarint(b, int64(r.Token-uint64(r.ClaimedAt)))
	b = packText(b, r.Operation)
	b = packText(b, r.RequestDigest)
	b = packText(b, r.AttemptID)
	b = packText(b, r.OutcomeDigest)
	if rare {
		b = packText(b, r.ErrorCode)
		b = packText(b, r.CorrelationID)
		b = packText(b, r.Fingerprint)
		b = binary.AppendUvarint(b, uint64(len(r.Redacted)))
		for _, p := range r.Redacted {
			b = packText(b, p)
		}
	}
	if p := r.Previous; p != nil {
		b = binary.AppendUvarint(b, uint64(p.Attempt))
		b = packText(b, p.Ended)
		b = binary.AppendVarint(b, int64(p.ClaimedAt-r.CreatedAt))
		b = binary.AppendVarint(b, int64(p.LeaseExpiresAt-p.ClaimedAt))
		b = packText(b, p.CorrelationID)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Response)))
	return append(b, r.Response...)
}

// unpack gives the record of b, in the namespace of that name, but for its
// tally. Its response lies in the page.
func unpack(r *Record, b packed, namespace string) {
	flags := b.flags()
	*r = Record{
		Namespace:          namespace,
		Status:             Status(flags & flagStatus),
		RerunOnLeaseExpiry: flags&flagRerunOnLeaseExpiry != 0,
		RerunOnExpired:     flags&flagRerunOnExpired != 0,
		HasResponse:        flags&flagHasResponse != 0,
		ResponseOmitted:    flags&flagResponseOmitted != 0,
		Dropped:            flags&flagDropped != 0,
		NotApplied:         flags&flagNotApplied != 0,
	}
	_, key, _ := b.id()
	d := r.unpackNumbers(b)

	// The texts that each record has become one allocation.
	var room [320]byte
	text := append(room[:0], key...)
	ends := [5]int{len(text)}
	for i := range 4 {
		text = d.text(text)
		ends[i+1] = len(text)
	}
	all := string(text)
	r.Key = all[:ends[0]]
	r.Operation = all[ends[0]:ends[1]]
	r.RequestDigest = all[ends[1]:ends[2]]
	r.AttemptID = all[ends[2]:ends[3]]
	r.OutcomeDigest = all[ends[3]:]

	if flags&flagRare != 0 {
		r.ErrorCode = d.string()
		r.CorrelationID = d.string()
		r.Fingerprint = d.string()
		if n := d.uint(); n > 0 {
			r.Redacted = make([]string, n)
			for i := range r.Redacted {
				r.Redacted[i] = d.string()
			}
		}
	}
	if flags&flagPrevious != 0 {
		p := &PreviousAttempt{Attempt: uint32(d.uint()), Ended: d.string()}
		p.ClaimedAt = r.CreatedAt + d.time()
		p.LeaseExpiresAt = p.ClaimedAt + d.time()
		p.CorrelationID = d.string()
		r.Previous = p
	}
	if n := d.uint(); n > 0 {
		r.Response = d.b[:n:n]
	}
}

// token is the record's, without the rest of it.
func (b packed) token() uint64 {
	var r Record
	r.unpackNumbers(b)
	return r.Token
}

// unpackNumbers fills in the counters and times of b, and gives what comes after
// them.
func (r *Record) unpackNumbers(b packed) unpacker {
	at, flags := b.at(), b.flags()
	_, _, rest := b.id()
	d := unpacker{rest}
	r.TTL = d.duration()
	r.Retention = d.duration()
	r.Version = d.uint()
	r.Attempt = uint32(d.uint())
	common := commonTimes(at, flags, r.TTL, r.Retention)
	r.SettledAt = common.settled + d.time()
	r.ExpiresAt = common.expires + d.time()
	r.RetainedUntil = common.retained + d.time()
	r.CreatedAt = common.created + d.time()
	r.ClaimedAt = r.CreatedAt + d.time()
	r.LeaseExpiresAt = r.ClaimedAt + d.time()
	r.Token = uint64(r.ClaimedAt + d.time())
	return d
}

// commonTimes gives what the times of most records with this head are, so that
// they pack into a byte each. Any others are right too, and longer.
func commonTimes(at Time, flags uint16, ttl, retention time.Duration) (c struct{ settled, expires, retained, created Time }) {
	switch status := Status(flags & flagStatus); {
	case status == Pending:
		c.created = at
		return c
	case status == Released:
		retention = 0
		fallthrough
	case status == Cancelled || flags&flagDropped != 0:
		c.settled = at.Add(-ttl - retention)
	default:
		c.settled = at.Add(-ttl)
	}
	c.expires = c.settled.Add(ttl)
	c.retained = c.expires.Add(retention)
	c.created = c.settled
	return c
}
