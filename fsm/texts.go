package fsm

import (
	"encoding/binary"
	"encoding/hex"
	"time"
)

// The texts in a packed record: a varint whose two low bits are the kind, and
// the bytes. Digests and UUIDs are twice as long in text as they are.
const (
	textRaw    = 0 // the rest of the varint is the length
	textSHA256 = 1 // "sha256-" and 64 lower-case hex digits: 32 bytes
	textUUID   = 2 // 8-4-4-4-12 lower-case hex digits: 16 bytes
)

const sha256Scheme = "sha256-"

func packText(b []byte, s string) []byte {
	switch {
	case len(s) == len(sha256Scheme)+64 && s[:len(sha256Scheme)] == sha256Scheme:
		if out, ok := packHex(append(b, textSHA256), s[len(sha256Scheme):]); ok {
			return out
		}
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-':
		out, ok := append(b, textUUID), true
		for _, part := range [...]string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]} {
			if ok {
				out, ok = packHex(out, part)
			}
		}
		if ok {
			return out
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s))<<2|textRaw)
	return append(b, s...)
}

// packHex appends the bytes that s spells; false when it is not lower-case hex.
func packHex(b []byte, s string) ([]byte, bool) {
	for i := 0; i < len(s); i += 2 {
		high, low := hexDigit[s[i]], hexDigit[s[i+1]]
		if high|low > 15 {
			return b, false
		}
		b = append(b, high<<4|low)
	}
	return b, true
}

var hexDigit = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range "0123456789abcdef" {
		t[c] = byte(i)
	}
	return t
}()

func packDuration(b []byte, d time.Duration) []byte {
	if d >= 0 && d%time.Second == 0 {
		return binary.AppendUvarint(b, uint64(d/time.Second)<<1)
	}
	return binary.AppendVarint(append(b, 1), int64(d))
}

// unpacker reads what pack wrote; it trusts it.
type unpacker struct{ b []byte }

func uvarint(b []byte) (uint64, []byte) {
	if b[0] < 0x80 {
		return uint64(b[0]), b[1:]
	}
	v, n := binary.Uvarint(b)
	return v, b[n:]
}

func (d *unpacker) uint() (v uint64) {
	v, d.b = uvarint(d.b)
	return v
}

func (d *unpacker) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *unpacker) time() Time { return Time(d.int()) }

func (d *unpacker) duration() time.Duration {
	v := d.uint()
	if v&1 == 0 {
		return time.Duration(v>>1) * time.Second
	}
	return time.Duration(d.int())
}

func (d *unpacker) take(n int) []byte {
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// text appends the next text to out.
func (d *unpacker) text(out []byte) []byte {
	switch v := d.uint(); v & 3 {
	case textSHA256:
		return hex.AppendEncode(append(out, sha256Scheme...), d.take(32))
	case textUUID:
		b := d.take(16)
		out = hex.AppendEncode(out, b[:4])
		for _, part := range [...][]byte{b[4:6], b[6:8], b[8:10], b[10:]} {
			out = hex.AppendEncode(append(out, '-'), part)
		}
		return out
	default:
		return append(out, d.take(int(v>>2))...)
	}
}

func (d *unpacker) string() string {
	var room [96]byte
	return string(d.text(room[:0]))
}
