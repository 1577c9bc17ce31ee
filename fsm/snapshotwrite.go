package fsm

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

// WriteTo writes the snapshot: the same bytes on every node that has the same
// state. It gives the number of bytes and the writer's first error, and may be
// called again.
func (v *View) WriteTo(w io.Writer) (int64, error) {
	f := &frameWriter{sum: sha256.New()}
	f.out = bufio.NewWriterSize(countTo{f, w}, 256<<10)
	f.raw(append([]byte(snapshotMagic), snapshotVersion))
	f.frame(frameHeader, &fsmpb.SnapshotHeader{
		Index: v.index, NowUs: int64(v.now), LastToken: v.lastToken, ClusterId: v.clusterID,
		StateHash: v.stateHash, AuditSequence: v.auditSeq,
		TickIndex: v.lastTick.index, TickHash: v.lastTick.hash,
	})
	v.names.Scan(func(ns *Namespace) bool {
		return f.frame(frameNamespace, namespaceToProto(ns))
	})
	for _, n := range v.nodes {
		f.frame(frameNode, &fsmpb.NodeState{Node: n.node, ReplaySequence: n.replaySequence})
	}
	var r Record
	record := func(x ref) bool {
		at := v.places.at(x)
		b := packed(v.list[at.page()][at.offset():])
		number, _, _ := b.id()
		unpack(&r, b, v.spaces[number])
		r.replayed(v.tallies.at(x))
		f.begin(frameRecord)
		f.buf = appendRecordFrame(f.buf, &r)
		return f.end()
	}
	if mutant == "maporder" {
		list := map[ref]bool{}
		v.records.Scan(func(x ref) bool { list[x] = true; return true })
		for x := range list {
			record(x)
		}
	} else {
		v.records.Scan(record)
	}
	v.prints.Scan(func(p fingerprint) bool {
		return f.frame(frameFingerprint, &fsmpb.FingerprintPointer{Namespace: p.namespace, Fingerprint: p.text, Key: p.key})
	})
	v.audit.Scan(func(it auditItem) bool {
		return f.frame(frameAudit, it.entry)
	})
	f.frame(frameTrailer, &fsmpb.SnapshotTrailer{
		Namespaces: f.counts[frameNamespace], Records: f.counts[frameRecord],
		Fingerprints: f.counts[frameFingerprint], Nodes: f.counts[frameNode],
		AuditEntries: f.counts[frameAudit], Sha256: f.sum.Sum(nil),
	})
	if err := f.out.Flush(); f.err == nil {
		f.err = err
	}
	return f.written, f.err
}

// frameWriter keeps the first error and does nothing after it.
type frameWriter struct {
	out     *bufio.Writer
	sum     hash.Hash
	counts  [frameTrailer + 1]uint64
	buf     []byte
	written int64
	err     error
}

func (f *frameWriter) raw(b []byte) bool {
	if f.err == nil {
		_, f.err = f.out.Write(b)
		f.sum.Write(b)
	}
	return f.err == nil
}

func (f *frameWriter) frame(kind frameKind, p proto.Message) bool {
	if f.err != nil {
		return false
	}
	f.begin(kind)
	f.buf, f.err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(f.buf, p)
	return f.end()
}

// begin starts a frame, whose payload the caller appends to buf.
func (f *frameWriter) begin(kind frameKind) {
	f.buf = append(f.buf[:0], 0, 0, 0, 0, byte(kind))
}

// end writes it.
func (f *frameWriter) end() bool {
	b := f.buf
	if f.err == nil && len(b)-frameHead > frameMax {
		f.err = fmt.Errorf("fsm: snapshot: frame of %d bytes is over the limit", len(b))
	}
	if f.err != nil {
		return false
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-frameHead))
	f.counts[b[frameHead-1]]++
	f.buf = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return f.raw(f.buf)
}

// countTo counts what has reached the writer.
type countTo struct {
	f *frameWriter
	w io.Writer
}

func (c countTo) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.f.written += int64(n)
	return n, err
}
