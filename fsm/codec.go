package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

var (
	// ErrDamaged says that stored bytes are not what was written.
	ErrDamaged = errors.New("fsm: damaged data")
	// ErrUnknownFormat says that bytes are whole but were written by a version
	// that knows more than this one.
	ErrUnknownFormat = errors.New("fsm: unknown format or operation")
)

// An entry in the log: one byte of format version, the CRC32C of that byte and
// the payload, big-endian, and the payload, a protobuf Entry.
const (
	entryVersion = 1
	entryHead    = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func entryChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, b[:1]), castagnoli, b[entryHead:])
}

// EncodeEntry gives e as the log keeps it. It refuses what DecodeEntry would
// refuse, such as an unknown op, and texts that are not UTF-8: nothing that
// halts a node gets into the log.
func EncodeEntry(e *Entry) ([]byte, error) {
	if err := known(e); err != nil {
		return nil, err
	}
	opts := proto.MarshalOptions{Deterministic: true}
	b := make([]byte, entryHead, entryHead+opts.Size(e))
	b[0] = entryVersion
	b, err := opts.MarshalAppend(b, e)
	if err != nil {
		return nil, fmt.Errorf("fsm: encode entry: %w", err)
	}
	binary.BigEndian.PutUint32(b[1:], entryChecksum(b))
	return b, nil
}

// DecodeEntry reads what EncodeEntry wrote; the entry holds no reference to b.
// Errors are ErrDamaged or ErrUnknownFormat; either must halt the node that
// meets it in its log. A field that this version does not know is
// ErrUnknownFormat: a node that left it out would decide otherwise than the
// one that wrote it.
func DecodeEntry(b []byte) (*Entry, error) {
	if err := CheckEntry(b); err != nil {
		return nil, err
	}
	e := new(Entry)
	if err := proto.Unmarshal(b[entryHead:], e); err != nil {
		return nil, fmt.Errorf("%w: entry: %v", ErrDamaged, err)
	}
	if err := known(e); err != nil {
		return nil, err
	}
	return e, nil
}

// CheckEntry checks the format version and checksum of an entry, no more.
func CheckEntry(b []byte) error {
	switch {
	case len(b) < entryHead:
		return fmt.Errorf("%w: entry of %d bytes", ErrDamaged, len(b))
	case b[0] != entryVersion:
		return fmt.Errorf("%w: entry format %d", ErrUnknownFormat, b[0])
	case binary.BigEndian.Uint32(b[1:]) != entryChecksum(b) && mutant != "entrycrc":
		return fmt.Errorf("%w: entry checksum", ErrDamaged)
	}
	return nil
}

// known refuses operations and fields of later versions.
func known(e *Entry) error {
	if strange(e) {
		return fmt.Errorf("%w: unknown field in an entry", ErrUnknownFormat)
	}
	for _, c := range e.GetCommands() {
		op := c.GetOp()
		switch {
		case op <= fsmpb.Op_OP_UNSPECIFIED || op > fsmpb.Op_OP_INIT:
			return fmt.Errorf("%w: op %d", ErrUnknownFormat, op)
		case c.Verdict < 0 || c.Verdict > fsmpb.Verdict_VERDICT_NOT_APPLIED:
			return fmt.Errorf("%w: verdict %d", ErrUnknownFormat, c.Verdict)
		case strange(c), c.Policy != nil && strange(c.Policy), c.Node != nil && strange(c.Node),
			c.Replays != nil && strange(c.Replays):
			return fmt.Errorf("%w: unknown field in a command", ErrUnknownFormat)
		}
		for _, count := range c.Replays.GetCounts() {
			if strange(count) {
				return fmt.Errorf("%w: unknown field in a replay count", ErrUnknownFormat)
			}
		}
	}
	return nil
}

func strange(p proto.Message) bool { return len(p.ProtoReflect().GetUnknown()) > 0 }
