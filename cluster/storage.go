package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	diskStall       = 8 * time.Second // a write that takes longer ends the process
	fileLockTimeout = time.Second     // bbolt's default waits for ever
)

// storage is what raft keeps on disk, or in memory when there is no data
// directory.
type storage struct {
	logs   raft.LogStore
	stable raft.StableStore
	snaps  raft.SnapshotStore

	stalls atomic.Int32 // writes that the disk has not answered for a while

	dir    string
	bolt   *raftboltdb.BoltStore
	wal    *walStore // nil: the log is in bolt
	unlock func() error
}

// memoryDisk is what a node without a data directory keeps.
type memoryDisk struct {
	logs     raft.LogStore
	stable   raft.StableStore
	snaps    raft.SnapshotStore
	identity *identityStore // nil before the first start
}

func newMemoryDisk() *memoryDisk {
	mem := raft.NewInmemStore()
	return &memoryDisk{logs: mem, stable: mem, snaps: newMemorySnapshots()}
}

// openStorage opens the log, the settings and the snapshots of raft. All that
// is stored is checked before it answers, because raft and bbolt panic on
// damage: a damaged raft.db is a *HaltError with exit code 70, a directory that
// is in use or cannot be used one with 78. onDamage is told, by a *HaltError, of
// damage that shows later and of a disk that fails or does not answer; it need
// not return.
func openStorage(cfg Config, logger hclog.Logger, onDamage func(error)) (*storage, error) {
	if cfg.DataDir == "" {
		d := cfg.disk
		if d == nil {
			d = newMemoryDisk()
		}
		s := &storage{stable: d.stable, snaps: d.snaps}
		s.logs = &logStore{inner: cfg.wrapped(d.logs), guard: s.guard(cfg, onDamage)}
		return s, nil
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, refusef("data directory %s cannot be made: %w", cfg.DataDir, err)
	}
	unlock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s := &storage{dir: cfg.DataDir, unlock: unlock}
	if err := s.open(cfg, logger, onDamage); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *storage) open(cfg Config, logger hclog.Logger, onDamage func(error)) error {
	snaps, err := openSnapshots(s.dir, logger)
	if err != nil {
		return err
	}
	s.snaps = snaps
	path := filepath.Join(s.dir, raftFile)
	damaged := func(err error) error { return damagedStore(path, err) }
	contents, err := checkBolt(path)
	if err != nil {
		return damaged(err)
	}
	err = recovered(func() (err error) {
		s.bolt, err = raftboltdb.New(boltOptions(path))
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return refusef("%s is in use by another process", path)
	case errors.Is(err, fs.ErrPermission), noSpace(err):
		return refusef("%s cannot be opened: %w", path, err)
	case err != nil:
		return damaged(err)
	}
	guard := s.guard(cfg, onDamage)
	stable := &stableStore{inner: s.bolt, guard: guard}
	s.stable = stable
	logs := &logStore{inner: s.bolt, guard: guard, deletable: s.deletable}
	if cfg.LogStore == LogStoreWAL {
		if contents.logs, err = s.openWAL(cfg, contents, stable, logger); err != nil {
			return err
		}
		logs.inner, logs.atOnce, logs.newest = s.wal, true, s.newestSnapshot
	}
	logs.inner = cfg.wrapped(logs.inner)
	var bad []badSnapshot
	err = recovered(func() (err error) {
		var newest uint64
		if newest, bad, err = carried(snaps, contents.logs, logs); err != nil {
			return err
		}
		return s.verify(contents, newest, logs, stable)
	})
	var halt *HaltError
	if errors.As(err, &halt) {
		return halt
	}
	if err != nil {
		return damaged(err)
	}
	for _, b := range bad {
		if err := snaps.remove(b); err != nil {
			return err
		}
	}
	s.logs, err = newLogCache(logs)
	return err
}

func damagedStore(path string, err error) error {
	return haltf("%s is damaged (%w): remove this node and add the machine under a new id; an older copy would have forgotten votes and acknowledged entries", path, err)
}

// openWAL opens the segments of the log and gives the indexes in them.
func (s *storage) openWAL(cfg Config, contents boltContents, stable *stableStore, logger hclog.Logger) ([]indexRange, error) {
	path := filepath.Join(s.dir, walDir)
	err := os.Mkdir(path, 0o700)
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, refusef("log directory %s cannot be made: %w", path, err)
	}
	if len(contents.logs) > 0 {
		return nil, damagedStore(filepath.Join(s.dir, raftFile), errors.New("it holds log entries, which belong into "+walDir))
	}
	var ranges []indexRange
	err = recovered(func() (err error) {
		s.wal, ranges, err = openWAL(walConfig{
			dir: path, files: walFiles{}, stable: stable, size: cfg.walSegment,
			newest: s.newestSnapshot, logger: logger.Named("wal"),
		})
		return err
	})
	switch {
	case errors.Is(err, errNoState):
		return nil, emptied(cfg.NodeID)
	case errors.Is(err, fs.ErrPermission), noSpace(err):
		return nil, refusef("%s cannot be opened: %w", path, err)
	case err != nil:
		return nil, damagedStore(path, err)
	}
	return ranges, nil
}

// newestSnapshot gives the index of the newest snapshot; 0: there is none.
func (s *storage) newestSnapshot() (uint64, error) {
	snaps, err := s.snaps.List()
	if err != nil || len(snaps) == 0 {
		return 0, err
	}
	return snaps[0].Index, nil
}

// boltOptions are how raft.db is opened. Every commit is synced: what is
// acknowledged is on the disks of a quorum.
func boltOptions(path string) raftboltdb.Options {
	return raftboltdb.Options{Path: path, NoSync: mutant == "nosync", BoltOptions: &bbolt.Options{
		Timeout:        fileLockTimeout,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}}
}

func (s *storage) guard(cfg Config, onDamage func(error)) storeGuard {
	return storeGuard{onDamage: onDamage, stallAfter: cfg.diskStall, stalls: &s.stalls}
}

// carried gives the index of the newest snapshot that is whole, 0 if there is
// none, and those that are damaged. It is a *HaltError when the log does not carry
// on from the whole one to the end of a damaged one. It does if no entry is
// missing and the last has the term of the snapshot: then the others are those of
// the snapshot too. Behind an installed snapshot a log may hold entries of the
// same indexes that no quorum ever had.
func carried(snaps *snapshotFiles, ranges []indexRange, logs *logStore) (newest uint64, bad []badSnapshot, err error) {
	good, bad, err := snaps.scan()
	if err != nil {
		return 0, nil, fmt.Errorf("snapshots cannot be listed: %w", err)
	}
	for ; len(good) > 0; good = good[1:] {
		why := snaps.check(good[0].ID)
		if why == nil {
			newest = good[0].Index
			break
		}
		bad = append(bad, badSnapshot{good[0].ID, good[0].Term, good[0].Index, why})
	}
	reached := newest
	for _, r := range ranges {
		if r.first <= reached+1 {
			reached = max(reached, r.last)
		}
	}
	for _, b := range bad {
		path := filepath.Join(snaps.path, b.name)
		if errors.Is(b.why, fs.ErrPermission) {
			return 0, nil, refusef("snapshot %s cannot be read: %w", path, b.why)
		}
		if b.index <= newest {
			continue
		}
		var l raft.Log
		if b.index <= reached {
			if err := logs.read(b.index, &l); err != nil {
				return 0, nil, fmt.Errorf("log entry %d: %w", b.index, err)
			}
		}
		if l.Term != b.term {
			return 0, nil, damagedStore(path, fmt.Errorf("%w; the log does not hold its entries %d to %d", b.why, newest+1, b.index))
		}
	}
	return newest, bad, nil
}

// verify reads all that is stored; newest is the index of the newest whole
// snapshot. raft panics when an entry behind its newest
// snapshot is missing or unreadable, so that is found here.
func (s *storage) verify(contents boltContents, newest uint64, logs *logStore, stable *stableStore) error {
	for _, key := range contents.conf {
		if _, err := stable.read([]byte(key)); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	snaps, err := s.snaps.List()
	if err != nil {
		return fmt.Errorf("snapshots cannot be listed: %w", err)
	}
	// An emptied raft.db beside snapshots is not an empty state: raft would
	// start from the snapshot, its term and vote forgotten.
	if _, err := stable.read([]byte(stableKeys[0])); err != nil && len(contents.logs)+len(snaps) > 0 {
		return fmt.Errorf("there are log entries or snapshots, but no term: %w", err)
	}
	var term, reached uint64
	for _, r := range contents.logs {
		// Below a snapshot that was installed whole a gap is as it should be.
		if r.last > newest && r.first > max(newest, reached)+1 {
			return fmt.Errorf("log entries %d to %d are missing", max(newest, reached)+1, r.first-1)
		}
		for i := r.first; i <= r.last; i++ {
			var l raft.Log
			if err := logs.read(i, &l); err != nil {
				return fmt.Errorf("log entry %d: %w", i, err)
			}
			if l.Term < term {
				return fmt.Errorf("log entry %d: term %d after %d", i, l.Term, term)
			}
			term = l.Term
		}
		reached = r.last
	}
	return nil
}

// deletable gives the index of the older of the two newest snapshots: the log
// behind it stays, so that it can take over from a damaged newest one. raft's
// TrailingLogs alone does not see to that: between two snapshots there may be
// any number of entries (raft-traps 0.10, hashicorp/raft#85).
func (s *storage) deletable() (uint64, error) {
	snaps, err := s.snaps.List()
	if err != nil {
		return 0, err
	}
	if len(snaps) < 2 {
		return math.MaxUint64, nil
	}
	return snaps[1].Index, nil
}

// hasState tells whether raft has ever been set up here.
func (s *storage) hasState() (bool, error) {
	return raft.HasExistingState(s.logs, s.stable, s.snaps)
}

// forgetHalfBootstrap makes raft.BootstrapCluster work again after a crash
// between its two writes, the term and the first entry: it would find the term
// and refuse, and the node would have no configuration for ever. To be called
// only while the identity is not initialised, when raft has surely not run.
func (s *storage) forgetHalfBootstrap() error {
	last, err := s.logs.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	snaps, err := s.snaps.List()
	if err != nil || len(snaps) > 0 {
		return err
	}
	term, err := s.stable.GetUint64([]byte(stableKeys[0]))
	if err != nil && err.Error() != errNotFound.Error() {
		return err
	}
	if term == 0 {
		return nil
	}
	return s.stable.SetUint64([]byte(stableKeys[0]), 0)
}

// sizes gives the bytes that log and snapshots take on disk; 0 in memory.
func (s *storage) sizes() (logBytes, snapshotBytes int64) {
	if s.dir == "" {
		return 0, 0
	}
	logBytes = sizeOf(filepath.Join(s.dir, raftFile)) + sizeOf(filepath.Join(s.dir, walDir))
	return logBytes, sizeOf(filepath.Join(s.dir, snapshotsDir))
}

// sizeOf gives the bytes of a file, or of all files in a directory.
func sizeOf(path string) (n int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it is just being removed, or is not there
		}
		if st, err := d.Info(); err == nil {
			n += st.Size()
		}
		return nil
	})
	return n
}

// Close closes the log and raft.db and gives the data directory free. raft must have ended.
func (s *storage) Close() error {
	var err error
	if s.wal != nil {
		err = recovered(s.wal.Close)
	}
	if s.bolt != nil {
		err = errors.Join(err, recovered(s.bolt.Close))
	}
	if s.unlock != nil {
		err = errors.Join(err, s.unlock())
	}
	return err
}
