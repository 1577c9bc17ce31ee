package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const (
	walSegmentSize = 16 << 20 // bytes; a smaller one is deleted sooner
	markEvery      = time.Second
)

// walStore is the log in segment files: one sync per append, where bbolt has
// two. It stands on hashicorp/raft-wal v0.4.0, whose own README calls it
// experimental, and makes up for what that release lacks: see walcheck.go and
// walfiles.go, and below for what it does after a failed write.
type walStore struct {
	cfg  walConfig
	meta *walMeta
	log  atomic.Pointer[wal.WAL]

	writeMu sync.Mutex // one write at a time; guards broken and the change of log
	broken  bool       // a write failed: the library is of no use any more
	closed  atomic.Bool

	acked atomic.Uint64 // last index whose write was answered
	armed atomic.Bool   // a mark will be written
}

type walConfig struct {
	dir    string
	files  types.VFS
	stable *stableStore // list of segments and mark
	size   int          // of a segment, in bytes; 0: walSegmentSize
	// newest gives the index of the newest snapshot; 0: none.
	newest func() (uint64, error)
	logger hclog.Logger
}

// openWAL opens the log after it has checked all of it, and gives the indexes
// that are in it.
func openWAL(cfg walConfig) (*walStore, []indexRange, error) {
	if cfg.size == 0 {
		cfg.size = walSegmentSize
	}
	s := &walStore{cfg: cfg, meta: &walMeta{stable: cfg.stable}}
	log, ranges, err := s.open(nil)
	if err != nil {
		return nil, nil, err
	}
	s.log.Store(log)
	if len(ranges) > 0 {
		s.acked.Store(ranges[0].last)
	}
	return s, ranges, nil
}

func (s *walStore) open(acked *uint64) (*wal.WAL, []indexRange, error) {
	ranges, err := checkWAL(s.cfg.files, s.cfg.dir, s.meta, acked)
	if err != nil {
		return nil, nil, err
	}
	created := func(id uint64) error { return s.meta.setMark(func(m *walMark) { m.Created = id }) }
	filer := walFiler{segment.NewFiler(s.cfg.dir, s.cfg.files), created, s.meta.full}
	log, err := wal.Open(s.cfg.dir, wal.WithLogger(s.cfg.logger), wal.WithSegmentSize(s.cfg.size),
		wal.WithMetaStore(s.meta), wal.WithSegmentFiler(filer))
	if err != nil {
		return nil, nil, err
	}
	var last uint64
	if len(ranges) > 0 {
		last = ranges[0].last
	}
	if got, err := log.LastIndex(); err != nil || got != last {
		return nil, nil, errors.Join(fmt.Errorf("its last entry is %d, and was opened as %d", last, got), err, log.Close())
	}
	return log, ranges, nil
}

// IsMonotonic implements raft.MonotonicLogStore: before a snapshot is installed
// that begins behind the log, all of the log has to go.
func (s *walStore) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (s *walStore) FirstIndex() (i uint64, err error) {
	err = s.read(func(l *wal.WAL) (err error) { i, err = l.FirstIndex(); return err })
	return i, err
}

// LastIndex implements raft.LogStore.
func (s *walStore) LastIndex() (i uint64, err error) {
	err = s.read(func(l *wal.WAL) (err error) { i, err = l.LastIndex(); return err })
	return i, err
}

// GetLog implements raft.LogStore.
func (s *walStore) GetLog(index uint64, out *raft.Log) error {
	return s.read(func(l *wal.WAL) error { return l.GetLog(index, out) })
}

// read asks again when the log was opened anew in between.
func (s *walStore) read(f func(*wal.WAL) error) error {
	for {
		log := s.log.Load()
		if err := f(log); !errors.Is(err, wal.ErrClosed) || s.closed.Load() || log == s.log.Load() {
			return err
		}
	}
}

// StoreLog implements raft.LogStore.
func (s *walStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The entries follow on the last one, or on
// a snapshot that lies behind the whole log.
func (s *walStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	return s.write(func() error {
		last, err := s.log.Load().LastIndex()
		if err != nil {
			return err
		}
		if last > 0 && logs[0].Index > last+1 {
			if err := s.jump(last, logs[0].Index); err != nil {
				return err
			}
		}
		err = s.log.Load().StoreLogs(logs)
		if errors.Is(err, wal.ErrSealed) {
			// The library could not make another segment, has told nobody, and
			// does not try again.
			if err = s.reopen(); err == nil {
				err = s.log.Load().StoreLogs(logs)
			}
		}
		if err != nil {
			return err
		}
		s.acked.Store(logs[len(logs)-1].Index)
		if !s.armed.Swap(true) {
			time.AfterFunc(markEvery, s.writeMark)
		}
		return nil
	})
}

// jump empties the log before the first entry behind a snapshot that was
// installed: raft deletes it itself, but a crash may have come in between.
func (s *walStore) jump(last, to uint64) error {
	newest, err := s.cfg.newest()
	if err != nil {
		return err
	}
	if newest+1 < to {
		return fmt.Errorf("entry %d after %d, but the newest snapshot ends at %d", to, last, newest)
	}
	return s.delete(0, last)
}

// DeleteRange implements raft.LogStore, for a prefix, a suffix, or all.
func (s *walStore) DeleteRange(first, last uint64) error {
	return s.write(func() error { return s.delete(first, last) })
}

func (s *walStore) delete(first, last uint64) error {
	log := s.log.Load()
	low, err := log.FirstIndex()
	if err != nil {
		return err
	}
	high, err := log.LastIndex()
	if err != nil {
		return err
	}
	if last >= high && first <= high {
		// The mark goes down first: what is deleted will not be missed.
		var kept uint64
		if first > low {
			kept = first - 1
		}
		s.acked.Store(kept)
		if err := s.meta.setMark(func(m *walMark) { m.Synced = min(m.Synced, kept) }); err != nil {
			return err
		}
	}
	return log.DeleteRange(first, last)
}

// write runs one write. What a failed one has left in the library's memory does
// not fit the files any more: before the next, they are read again, as after a
// crash. Most failures end the process before that (storeGuard.write); those of
// missing space do not.
func (s *walStore) write(f func() error) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.closed.Load() {
		return wal.ErrClosed
	}
	s.meta.awaitTurn()
	if s.broken {
		if err := s.reopen(); err != nil {
			return err
		}
	}
	err := f()
	s.broken = err != nil
	return err
}

func (s *walStore) reopen() error {
	s.broken = true
	acked := s.acked.Load()
	log, ranges, err := s.open(&acked)
	if err != nil {
		return err
	}
	var last uint64
	if len(ranges) > 0 {
		last = ranges[0].last
	}
	if last < acked {
		return errors.Join(fmt.Errorf("%w: the log ends at entry %d, but %d was stored", errDamaged, last, acked), log.Close())
	}
	old := s.log.Swap(log)
	s.broken = false
	return old.Close()
}

// writeMark notes how far the log reaches, a while after a write, so that no
// write waits for it.
func (s *walStore) writeMark() {
	s.armed.Store(false)
	if s.closed.Load() {
		return
	}
	if s.mark() != nil && !s.armed.Swap(true) { // no space, or the process is ending
		time.AfterFunc(markEvery, s.writeMark)
	}
}

func (s *walStore) mark() error {
	return s.meta.setMark(func(m *walMark) { m.Synced = s.acked.Load() })
}

// Close writes the mark and closes the files. raft must have ended.
func (s *walStore) Close() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(s.mark(), s.log.Load().Close())
}
