package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// hashicorp/raft-wal v0.4.0 checks, at its start, the checksum of the last
// append only, and whatever it cannot read in the last segment it takes for an
// append that a crash cut off: from there on everything is dropped, acknowledged
// or not, and what is left behind the new end is read again at the next start.
// It does not go on after a crash between the last append to a segment and the
// next segment. So the segments are walked here first, as raft.db is:
//
//   - Every append has a checksum of its own, over every byte, and all are checked.
//   - An append is written only when the one before is synced. So a broken one
//     that has a whole one behind it, or that lies at or below the mark (walMark),
//     is damage, and refused.
//   - A broken last append may be one that was cut off and never acknowledged.
//     Space is zero before it is written, and a disk writes a sector whole or not
//     at all (bbolt's meta pages need that too): an append that was cut off has a
//     sector that is still zero. One that has none is damage.
//   - What remains was cut off. It is overwritten with zeros, so that the library
//     never sees any.
//
// What is not noticed: zeros in the place of what was appended in the last second
// (markEvery) before a crash, from some append on to the end; and a flipped length
// in the last append that leads into the zeros behind it. A disk that loses what
// it said it had synced takes that away from bbolt unnoticed as well; damage that
// comes later bbolt notices.

const (
	walHeaderLen, walFrameLen = 32, 8
	walMagic                  = 0x58eb6b0d
	walEntry, walIndex        = 1, 2
	walCommit                 = 3
	walSector                 = 512

	// walMaxFrame is above any frame: an entry is about half a MiB at most, and
	// the index of a segment smaller than the segment.
	walMaxFrame = 32 << 20
)

// errNoState tells that there are segments that raft.db knows nothing of.
var errNoState = errors.New("there are log segments, but no list of them")

// checkWAL tells whether the segments in dir are whole and gives the indexes in
// them. It mends what a crash leaves, or a failed write, of which acked tells the
// last entry before it; nil: that is not known.
func checkWAL(files types.VFS, dir string, meta *walMeta, acked *uint64) ([]indexRange, error) {
	state, found, err := meta.load()
	if err != nil {
		return nil, err
	}
	names, err := files.ListDir(dir)
	if err != nil {
		return nil, err
	}
	if !found {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".wal") }) {
			return nil, errNoState
		}
		return nil, nil
	}
	var next uint64
	for i := range state.Segments {
		info := state.Segments[i]
		name := segment.FileName(info)
		tail := i == len(state.Segments)-1
		if info.SealTime.IsZero() != tail || info.Codec != wal.CodecBinaryV1 || i > 0 && info.BaseIndex != next {
			return nil, fmt.Errorf("%s does not follow from the segments before", name)
		}
		if !tail {
			if err := checkSealed(files, dir, info); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			next = info.MaxIndex + 1
			continue
		}
		scan, err := checkTail(files, dir, info, meta.getMark(), acked)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		next = scan.next
		if scan.index > 0 {
			if err := sealTail(meta, &state, scan); err != nil {
				return nil, err
			}
		}
	}
	if len(state.Segments) == 0 {
		next = 1
	}
	if synced := meta.getMark().Synced; synced >= next {
		return nil, fmt.Errorf("log entries %d to %d are missing at its end", next, synced)
	}
	if len(state.Segments) == 0 || state.Segments[0].MinIndex >= next {
		return nil, nil
	}
	return []indexRange{{state.Segments[0].MinIndex, next - 1}}, nil
}

// checkSealed checks a segment that is not the last one.
func checkSealed(files types.VFS, dir string, info types.SegmentInfo) error {
	b, err := readSegment(files, dir, info)
	if err != nil {
		return err
	}
	scan, err := scanSegment(b, info)
	if err != nil {
		return err
	}
	if scan.next <= info.MaxIndex {
		return fmt.Errorf("log entry %d and what follows is not what was written", scan.next)
	}
	if info.IndexStart != 0 && info.IndexStart != scan.index {
		return errors.New("its index is not where it was written")
	}
	return nil
}

// checkTail checks the last segment and takes away what a crash left of an
// append or of the making of the file.
func checkTail(files types.VFS, dir string, info types.SegmentInfo, mark walMark, acked *uint64) (walScan, error) {
	none := walScan{next: info.BaseIndex}
	if mark.Created != info.ID {
		// The crash was before the file was surely there: nothing is in it.
		err := files.Delete(dir, segment.FileName(info))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return none, err
	}
	b, err := readSegment(files, dir, info)
	if err != nil {
		return none, err
	}
	scan, err := scanSegment(b, info)
	if err != nil {
		return none, err
	}
	rest := bytes.TrimRight(b[scan.end:], "\x00")
	if len(rest) == 0 {
		return scan, nil
	}
	unacked := acked != nil && scan.next > *acked
	if !unacked && (laterBatch(b, scan.end) || !cutOff(b, scan.end, info)) {
		return none, fmt.Errorf("log entry %d and what follows is not what was written", scan.next)
	}
	f, err := files.OpenWriter(dir, segment.FileName(info))
	if err != nil {
		return none, err
	}
	_, err = f.WriteAt(make([]byte, len(rest)), int64(scan.end))
	return scan, errors.Join(err, f.Sync(), f.Close())
}

// sealTail does what the library does not do after a crash: the last segment is
// full, and another has to follow.
func sealTail(meta *walMeta, state *types.PersistentState, scan walScan) error {
	full := &state.Segments[len(state.Segments)-1]
	full.MaxIndex, full.IndexStart, full.SealTime = scan.next-1, scan.index, time.Now()
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: state.NextSegmentID, BaseIndex: scan.next, MinIndex: scan.next,
		Codec: full.Codec, CreateTime: full.SealTime, SizeLimit: full.SizeLimit,
	})
	state.NextSegmentID++
	return meta.CommitState(*state)
}

// readSegment reads a whole file, which has at least the size it was made with.
func readSegment(files types.VFS, dir string, info types.SegmentInfo) ([]byte, error) {
	f, err := files.OpenReader(dir, segment.FileName(info))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("it is missing")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, int64(info.SizeLimit)+bytes.MinRead))
	if _, err := b.ReadFrom(io.NewSectionReader(f, 0, 1<<32)); err != nil {
		return nil, err
	}
	if b.Len() < int(info.SizeLimit) {
		return nil, fmt.Errorf("it was cut off: %d bytes of %d", b.Len(), info.SizeLimit)
	}
	return b.Bytes(), nil
}

// walScan is what the whole appends of a segment hold, up to the first that is
// not whole.
type walScan struct {
	end   int    // offset behind them
	next  uint64 // index of the next entry
	index uint64 // offset of the index block's array, which ends a full segment; 0: none
}

func scanSegment(b []byte, info types.SegmentInfo) (walScan, error) {
	s := walScan{next: info.BaseIndex}
	for s.index == 0 {
		entries, index, end := walBatch(b, s.end)
		if end == 0 {
			return s, nil
		}
		if s.end == 0 && !walHeaderIs(b, info) {
			return s, errors.New("it is another segment's file")
		}
		s.end, s.index = end, index
		s.next += entries
	}
	return s, nil
}

func walHeaderIs(b []byte, info types.SegmentInfo) bool {
	u64 := binary.LittleEndian.Uint64
	return u64(b) == walMagic && u64(b[8:]) == info.BaseIndex && u64(b[16:]) == info.ID && u64(b[24:]) == info.Codec
}

// walFrame reads the frame at offset at: its kind and the offset behind it, which
// may be behind the end of b; kind 0: there is none.
func walFrame(b []byte, at int) (kind byte, end int) {
	if at+walFrameLen > len(b) || b[at] > walCommit || b[at+1]|b[at+2]|b[at+3] != 0 {
		return 0, 0
	}
	end = at + walFrameLen
	if b[at] != walCommit {
		n := int(binary.LittleEndian.Uint32(b[at+4:]))
		if n > walMaxFrame {
			return 0, 0
		}
		end += (n + 7) &^ 7
	}
	return b[at], end
}

// walBatch reads the append that begins at offset at. end is 0 when it is not
// whole.
func walBatch(b []byte, at int) (entries, index uint64, end int) {
	p := at
	if at == 0 {
		p = walHeaderLen
	}
	for {
		kind, next := walFrame(b, p)
		if next > len(b) {
			kind = 0
		}
		switch kind {
		case walEntry:
			entries++
		case walIndex:
			index = uint64(p + walFrameLen)
		case walCommit:
			if binary.LittleEndian.Uint32(b[p+4:]) != crc32.Checksum(b[at:p], castagnoli) {
				return 0, 0, 0
			}
			return entries, index, next
		default:
			return 0, 0, 0
		}
		p = next
	}
}

// laterBatch tells whether there is a whole append behind the one at offset at.
func laterBatch(b []byte, at int) bool {
	end := at + len(bytes.TrimRight(b[at:], "\x00"))
	for p := at&^7 + 8; p < end; p += 8 {
		if b[p] == walEntry {
			if entries, _, end := walBatch(b, p); end > 0 && entries > 0 {
				return true
			}
		}
	}
	return false
}

// cutOff tells whether the append at offset at, which is not whole, has a sector
// that was never written.
func cutOff(b []byte, at int, info types.SegmentInfo) bool {
	unwritten := func(p int) bool {
		from, to := max(p&^(walSector-1), at), min(p&^(walSector-1)+walSector, len(b))
		return len(bytes.TrimLeft(b[from:to], "\x00")) == 0
	}
	p := at
	if at == 0 {
		if unwritten(0) {
			return true
		}
		if !walHeaderIs(b, info) {
			return false
		}
		p = walHeaderLen
	}
	for {
		if p+walFrameLen > len(b) || unwritten(p) {
			return true // only the append that fills a segment makes its file grow
		}
		kind, end := walFrame(b, p)
		if kind != walEntry && kind != walIndex {
			return false
		}
		for s := p&^(walSector-1) + walSector; s < end; s += walSector {
			if s >= len(b) || unwritten(s) {
				return true
			}
		}
		p = end
	}
}
