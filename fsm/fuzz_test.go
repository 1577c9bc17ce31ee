package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

// What decodes is encoded again to something that decodes to the same; what
// does not is one of the two errors.
func FuzzDecodeEntry(f *testing.F) {
	for _, e := range oneOfEach() {
		b := encoded(f, e)
		f.Add(b)
		f.Add(b[entryHead:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, enveloped(b)} { // also behind a checksum that fits
			e, err := DecodeEntry(b)
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownFormat) {
					t.Fatal(err)
				}
				continue
			}
			again, err := DecodeEntry(encoded(t, e))
			if err != nil || !proto.Equal(e, again) {
				t.Fatalf("%v, %v", again, err)
			}
		}
	})
}

// A snapshot that is read is whole; one that is not is ErrDamaged. The bytes are
// read as they are, and as a list of frames (kind, length, payload) that gets
// checksums and a trailer that fit, to reach what lies behind them.
func FuzzReadSnapshot(f *testing.F) {
	for _, m := range []*Machine{New(), richState(f).m} {
		b := snapshotOf(f, m)
		f.Add(b)
		var list []byte
		for _, fr := range takeApart(f, b) {
			list = binary.AppendUvarint(append(list, byte(fr.kind)), uint64(len(fr.payload)))
			list = append(list, fr.payload...)
		}
		f.Add(list)
	}
	try := func(t *testing.T, b []byte) {
		m, err := ReadSnapshot(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrDamaged) || m != nil {
				t.Fatal(err)
			}
			return
		}
		audit(t, m)
		m.Apply(m.Index()+1, &Entry{Commands: []*Command{reserve(key1, "a"), sweep(0)}})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		try(t, b)
		var list []frame
		var n fsmpb.SnapshotTrailer
		for len(b) > 2 {
			kind, size := frameKind(b[0]), 0
			v, k := binary.Uvarint(b[1:])
			if k <= 0 {
				break
			}
			b = b[1+k:]
			size = int(min(v, uint64(len(b))))
			if kind != frameTrailer {
				list = append(list, frame{kind, b[:size]})
			}
			switch kind {
			case frameNamespace:
				n.Namespaces++
			case frameNode:
				n.Nodes++
			case frameRecord:
				n.Records++
			case frameFingerprint:
				n.Fingerprints++
			case frameAudit:
				n.AuditEntries++
			}
			b = b[size:]
		}
		trailer, _ := proto.Marshal(&n)
		try(t, putTogether(t, append(list, frame{frameTrailer, trailer})))
	})
}

// Apply is total: no content makes it panic, and it leaves the state whole.
func FuzzApply(f *testing.F) {
	for _, e := range oneOfEach() {
		b, _ := proto.Marshal(e)
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		m := richState(t).m
		for i, b := range [][]byte{first, second, first} {
			e := new(Entry)
			if proto.Unmarshal(b, e) != nil {
				return
			}
			if got := m.Apply(100+uint64(i), e); len(got) != len(e.Commands) {
				t.Fatalf("%d results of %d commands", len(got), len(e.Commands))
			}
			for _, c := range e.Commands {
				m.Replay(c, m.Now())
				m.Records(c.GetNamespace(), ListOptions{Prefix: c.GetKey(), Limit: int(c.GetLimit())}, m.Now())
			}
		}
		audit(t, m)
		m.Stats(m.Now())
		m.NextDue()
		restored(t, snapshotOf(t, m))
	})
}

func TestApplyIsTotal(t *testing.T) {
	t.Parallel()
	g := richState(t)
	for _, e := range []*Entry{nil, {}, {Commands: []*Command{nil, {}, {Op: 99}, {Op: -1}}, TimeUs: -1}} {
		for _, res := range g.m.Apply(g.m.Index()+1, e) {
			if res.Code != "invalid_request" {
				t.Errorf("%+v", res)
			}
		}
	}
	if _, ok := g.m.Replay(nil, g.now); ok {
		t.Error("nil")
	}
	audit(t, g.m)
}
