package fsm

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

// ReadSnapshot restores a machine from all of r, whole or not at all: a
// snapshot that is damaged, cut, too long, out of order or of another format
// gives an error that is ErrDamaged; one whose reader fails gives that error.
func ReadSnapshot(r io.Reader) (*Machine, error) {
	f := &frameReader{in: bufio.NewReaderSize(r, 256<<10), sum: sha256.New()}
	magic := make([]byte, len(snapshotMagic)+1)
	switch err := f.full(magic); {
	case err != nil:
		return nil, err
	case string(magic[:len(snapshotMagic)]) != snapshotMagic:
		return nil, damaged("not a snapshot")
	case magic[len(snapshotMagic)] != snapshotVersion:
		return nil, damaged("format version %d is unknown", magic[len(snapshotMagic)])
	}
	restore := &restorer{m: newEmpty()}
	for {
		kind, payload, err := f.next()
		if err != nil {
			return nil, err
		}
		if kind == frameTrailer {
			if err := f.end(payload, restore.counts); err != nil {
				return nil, err
			}
			break
		}
		if err := restore.frame(kind, payload); err != nil {
			return nil, err
		}
	}
	return restore.finish()
}

type frameReader struct {
	in      *bufio.Reader
	sum     hash.Hash
	payload []byte
	before  []byte // SHA-256 of what came before the present frame
}

func (f *frameReader) full(b []byte) error {
	_, err := io.ReadFull(f.in, b)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("cut off")
	case err != nil:
		return err
	}
	f.sum.Write(b)
	return nil
}

// next reads a frame. The payload is good until the next call.
func (f *frameReader) next() (frameKind, []byte, error) {
	var head [frameHead]byte
	if b, err := f.in.Peek(frameHead); err == nil && frameKind(b[4]) == frameTrailer {
		f.before = f.sum.Sum(nil)
	}
	if err := f.full(head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameMax {
		return 0, nil, damaged("frame of %d bytes", n)
	}
	f.payload = slices.Grow(f.payload[:0], int(n)+frameTail)[:int(n)+frameTail]
	if err := f.full(f.payload); err != nil {
		return 0, nil, err
	}
	payload := f.payload[:n]
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, payload)
	if binary.BigEndian.Uint32(f.payload[n:]) != sum {
		return 0, nil, damaged("frame checksum")
	}
	return frameKind(head[4]), payload, nil
}

// end holds the trailer against what was read.
func (f *frameReader) end(payload []byte, counts [frameTrailer]uint64) error {
	var t fsmpb.SnapshotTrailer
	if err := decodeFrame(payload, &t); err != nil {
		return err
	}
	switch {
	case !bytes.Equal(t.Sha256, f.before):
		return damaged("SHA-256 differs")
	case t.Namespaces != counts[frameNamespace], t.Records != counts[frameRecord],
		t.Fingerprints != counts[frameFingerprint], t.Nodes != counts[frameNode],
		t.AuditEntries != counts[frameAudit]:
		return damaged("frames are missing or too many")
	}
	switch _, err := f.in.ReadByte(); {
	case err == nil:
		return damaged("bytes after the end")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func decodeFrame(payload []byte, p proto.Message) error {
	if err := proto.Unmarshal(payload, p); err != nil {
		return damaged("%v", err)
	}
	if strange(p) {
		return damaged("a field is unknown")
	}
	return nil
}

// restorer builds a machine from frames, in their order.
type restorer struct {
	m      *Machine
	header *fsmpb.SnapshotHeader
	last   frameKind
	counts [frameTrailer]uint64

	rec    Record
	orders [3][]placed // of the store, in key order
}

func (x *restorer) frame(kind frameKind, payload []byte) error {
	switch {
	case kind < frameHeader || kind >= frameTrailer:
		return damaged("frame of unknown kind %d", kind)
	case kind < x.last || (x.header == nil) != (kind == frameHeader):
		return damaged("frame out of order")
	}
	x.last = kind
	x.counts[kind]++
	switch kind {
	case frameHeader:
		return x.readHeader(payload)
	case frameNamespace:
		return x.readNamespace(payload)
	case frameNode:
		return x.readNode(payload)
	case frameRecord:
		return x.readRecord(payload)
	case frameFingerprint:
		return x.readFingerprint(payload)
	}
	return x.readAudit(payload)
}

func (x *restorer) readHeader(payload []byte) error {
	h := new(fsmpb.SnapshotHeader)
	if err := decodeFrame(payload, h); err != nil {
		return err
	}
	if h.NowUs < 0 || Time(h.NowUs) > maxTime {
		return damaged("log time")
	}
	x.header = h
	m := x.m
	m.index, m.now, m.lastToken, m.clusterID = h.Index, Time(h.NowUs), h.LastToken, h.ClusterId
	m.auditSeq = h.AuditSequence
	if h.TickIndex != 0 || h.TickHash != 0 {
		m.ticks = append(m.ticks, tick{h.TickIndex, h.TickHash})
	}
	return nil
}

func (x *restorer) readNamespace(payload []byte) error {
	p := new(fsmpb.Namespace)
	if err := decodeFrame(payload, p); err != nil {
		return err
	}
	if last, ok := x.m.names.Max(); ok && p.Name <= last.Name {
		return damaged("namespaces out of order")
	}
	x.m.putNamespace(namespaceFromProto(p))
	return nil
}

func (x *restorer) readNode(payload []byte) error {
	p := new(fsmpb.NodeState)
	if err := decodeFrame(payload, p); err != nil {
		return err
	}
	n := &nodeState{id: p.Node.GetId(), node: p.Node, replaySequence: p.ReplaySequence}
	if nodes := x.m.nodes; n.id == "" || len(nodes) > 0 && n.id <= nodes[len(nodes)-1].id {
		return damaged("nodes out of order")
	}
	x.m.putNode(n)
	return nil
}

func (x *restorer) readRecord(payload []byte) error {
	m, r := x.m, &x.rec
	if err := readRecordFrame(payload, r); err != nil {
		return damaged("record: %v", err)
	}
	sp, ok := m.spaces[r.Namespace]
	last, any := m.store.records.Max()
	switch {
	case !ok:
		return damaged("record without a namespace")
	case r.Status < Pending || r.Status > Cancelled:
		return damaged("record of unknown status %d", r.Status)
	}
	now := m.store.keep(sp.number, r)
	if any && !m.store.byKey(last, now) {
		return damaged("records out of order")
	}
	m.sum += m.hashRecord(r)
	m.store.records.Load(now)
	sp.add(r, 1)
	for i, o := range m.store.orders() {
		p := placed{nth: x.counts[frameRecord], ref: now}
		if i > 0 { // all but dues begin with the namespace
			p.space = sp.number
		}
		if b := m.store.at(now); o.holds(b) {
			p.at = o.time(b)
			x.orders[i] = append(x.orders[i], p)
		}
	}
	return nil
}

// placed is a record's place in an order over time.
type placed struct {
	space uint32 // numbers rise with names in a machine that is being restored
	at    Time
	nth   uint64 // in key order, by which the same times are told apart
	ref   ref
}

func (x *restorer) readFingerprint(payload []byte) error {
	q := new(fsmpb.FingerprintPointer)
	if err := decodeFrame(payload, q); err != nil {
		return err
	}
	p := fingerprint{namespace: q.Namespace, text: q.Fingerprint, key: q.Key}
	if last, ok := x.m.prints.Max(); ok && !byFingerprint(last, p) {
		return damaged("fingerprints out of order")
	}
	x.m.keepFingerprint(p)
	return nil
}

func (x *restorer) readAudit(payload []byte) error {
	e := new(fsmpb.AuditEntry)
	if err := decodeFrame(payload, e); err != nil {
		return err
	}
	if last, ok := x.m.audit.Max(); ok && e.Sequence <= last.entry.Sequence || e.Sequence > x.m.auditSeq {
		return damaged("audit entries out of order")
	}
	x.m.keepAudit(e)
	return nil
}

// finish builds the indexes and holds the state against its hash.
func (x *restorer) finish() (*Machine, error) {
	m := x.m
	if x.header == nil {
		return nil, damaged("no header")
	}
	for i, o := range m.store.orders() {
		slices.SortFunc(x.orders[i], func(a, b placed) int {
			return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.at, b.at), cmp.Compare(a.nth, b.nth))
		})
		for _, p := range x.orders[i] {
			o.tree.Load(p.ref)
		}
	}
	m.names.Scan(func(ns *Namespace) bool {
		if sp := m.spaces[ns.Name]; ns.Retired && sp.records > 0 {
			m.draining = append(m.draining, sp)
		}
		return true
	})
	if m.StateHash() != x.header.StateHash {
		return nil, damaged("state hash differs")
	}
	return m, nil
}
