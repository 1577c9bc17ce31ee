package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
)

const (
	// deleteChunk bounds one transaction of a compaction: 200,000 entries in
	// one held up commits for 216 ms, 2,048 for 20 ms (raft-traps 0.5).
	deleteChunk = 2048

	// sealVersion opens the seal of a stored entry.
	sealVersion = 1
	sealLen     = 5
)

// errDamaged is a stored entry or setting that is not what was written.
var errDamaged = errors.New("damaged")

// errOwed refuses writes to a log whose end is half deleted.
var errOwed = errors.New("the end of the log could not be deleted before: make room and restart")

// logStore is a raft.LogStore that never gives out an entry other than the one
// it was given: bbolt has no checksum of data, and of 400 flipped bits 99
// changed an entry unnoticed (raft-traps 0.8); raft-wal has one and does not look
// at it when it reads. Each stored entry carries a seal
// over index, term, type and data in its Extensions; the command inside has its
// own checksum besides, which it brings from the proposer.
type logStore struct {
	inner raft.LogStore
	guard storeGuard
	// deletable, if set, gives the last index that a compaction may delete.
	deletable func() (uint64, error)
	// atOnce tells that inner deletes a prefix of any length in one short write.
	atOnce bool
	// newest gives the index of the newest snapshot; needed with atOnce.
	newest func() (uint64, error)
	// owed: with atOnce, a deletion of the log's end failed, for want of space or
	// the process is ending. The files may be without that end, which raft still
	// counts on: only its repetition, which raft makes, goes on from here.
	owed atomic.Bool
	// afterChunk is for tests: called between the transactions of a deletion.
	afterChunk func() error
}

// IsMonotonic is as the inner store has it.
func (s *logStore) IsMonotonic() bool {
	m, ok := s.inner.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// FirstIndex implements raft.LogStore.
func (s *logStore) FirstIndex() (i uint64, err error) {
	err = s.guard.run("first log index", func() (err error) { i, err = s.inner.FirstIndex(); return err })
	return i, err
}

// LastIndex implements raft.LogStore.
func (s *logStore) LastIndex() (i uint64, err error) {
	err = s.guard.run("last log index", func() (err error) { i, err = s.inner.LastIndex(); return err })
	return i, err
}

// GetLog gives the entry at index, raft.ErrLogNotFound itself (raft compares
// with ==) or an error that has been told as damage.
func (s *logStore) GetLog(index uint64, log *raft.Log) error {
	err := s.guard.run(fmt.Sprintf("log entry %d", index), func() error { return s.read(index, log) })
	if errors.Is(err, raft.ErrLogNotFound) {
		return raft.ErrLogNotFound
	}
	return err
}

// read is GetLog that tells nobody.
func (s *logStore) read(index uint64, log *raft.Log) error {
	var l raft.Log
	if err := s.inner.GetLog(index, &l); errors.Is(err, raft.ErrLogNotFound) || storeClosed(err) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err := unseal(index, &l); err != nil && mutant != "nocrc" {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	*log = l
	return nil
}

// StoreLog implements raft.LogStore.
func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs seals and writes entries in one transaction. It refuses all of them
// when one is not what its proposer made.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			if err := fsm.CheckEntry(l.Data); err != nil {
				return fmt.Errorf("cluster: entry %d is not stored: %w", l.Index, err)
			}
		}
		if len(l.Extensions) != 0 {
			return fmt.Errorf("cluster: entry %d is not stored: it has extensions", l.Index)
		}
		c := *l // raft and its cache keep l
		c.Extensions = seal(&c)
		sealed[i] = &c
	}
	return s.guard.write("store log entries", func() error {
		if s.owed.Load() && (len(logs) == 0 || !s.behindSnapshot(logs[0].Index)) {
			return errOwed // raft would write behind what it no longer has
		}
		err := s.inner.StoreLogs(sealed)
		if err == nil {
			s.owed.Store(false)
		}
		return err
	})
}

// behindSnapshot tells whether index follows on the newest snapshot: when one was
// just installed, the log before it does not count, deleted or not.
func (s *logStore) behindSnapshot(index uint64) bool {
	if s.newest == nil {
		return false
	}
	newest, err := s.newest()
	return err == nil && index == newest+1
}

// DeleteRange deletes the entries from first to last, both included. A prefix
// goes in ascending chunks, so that commits need not wait for all of it: a crash
// in between leaves a shorter prefix. What reaches the end of the log, or lies
// in it, goes in one transaction: a part of it deleted would leave a hole below
// stale entries. A compaction stops at deletable; raft asks again at the next.
// It is refused while the deletion of an end has to be repeated.
func (s *logStore) DeleteRange(first, last uint64) error {
	low, err := s.FirstIndex()
	if err != nil {
		return err
	}
	high, err := s.LastIndex()
	if err != nil {
		return err
	}
	if first <= low && last < high && mutant != "onedelete" {
		if s.owed.Load() {
			return errOwed
		}
		if s.deletable != nil && mutant != "shorttrail" {
			limit, err := s.deletable()
			if err != nil {
				return err
			}
			last = min(last, limit)
		}
		for first = max(first, low); first <= last; {
			to := last
			if !s.atOnce {
				to = min(last, first+deleteChunk-1)
			}
			if err := s.delete(first, to); err != nil {
				return err
			}
			first = to + 1
			if s.afterChunk != nil {
				if err := s.afterChunk(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = s.delete(first, last)
	if last >= high {
		s.owed.Store(s.atOnce && err != nil)
	}
	return err
}

func (s *logStore) delete(first, last uint64) error {
	return s.guard.write("delete log entries", func() error { return s.inner.DeleteRange(first, last) })
}

// seal gives the bytes that unseal accepts for l alone.
func seal(l *raft.Log) []byte {
	var h [17]byte
	binary.BigEndian.PutUint64(h[0:], l.Index)
	binary.BigEndian.PutUint64(h[8:], l.Term)
	h[16] = byte(l.Type)
	sum := crc32.Update(crc32.Checksum(h[:], castagnoli), castagnoli, l.Data)
	return binary.BigEndian.AppendUint32([]byte{sealVersion}, sum)
}

// unseal checks a stored entry and takes the seal off.
func unseal(index uint64, l *raft.Log) error {
	if len(l.Extensions) != sealLen || l.Extensions[0] != sealVersion {
		return errors.New("no seal of this version")
	}
	if l.Index != index {
		return fmt.Errorf("it says that it is entry %d", l.Index)
	}
	if string(l.Extensions) != string(seal(l)) {
		return errors.New("wrong checksum")
	}
	if l.Type == raft.LogCommand {
		if err := fsm.CheckEntry(l.Data); err != nil {
			return err
		}
	}
	l.Extensions = nil
	return nil
}
