package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	snapshotsKept    = 3               // a damaged one lets an older take over (R8)
	oldSnapshotParts = ".tmp"          // left over by a crash while one was written
	snapshotMeta     = "meta.json"     // raft's description of a snapshot
	snapshotSeal     = "meta.json.sum" // ours of that
	snapshotState    = "state.bin"
	// snapshotSyncEach is how much of a snapshot may be written and not synced.
	// All of it at the end would be hundreds of MB that the disk writes before
	// any log entry.
	snapshotSyncEach = 4 << 20
)

var crc64ECMA = crc64.MakeTable(crc64.ECMA)

// snapshotFiles are raft's snapshots with a checksum over their description.
// raft has one over the state only: a flipped bit in the description is another
// index, term or list of members, and the node goes on with it. What does not
// fit its seal is not given out; what a start makes of it: carried.
//
// The seal is on the disk before raft gives the snapshot its name. So each named
// one has a seal, whatever crash came, and raft's removal of older ones and its
// compaction of the log come after it.
type snapshotFiles struct {
	*raft.FileSnapshotStore
	path   string
	logger hclog.Logger
}

// snapshotDoc is what raft writes into meta.json.
type snapshotDoc struct {
	raft.SnapshotMeta
	CRC []byte // CRC-64 of the state
}

// badSnapshot is one that is not what was written. Term and index are from the
// name of its directory, which is not part of its files.
type badSnapshot struct {
	name        string
	term, index uint64
	why         error
}

// openSnapshots opens the snapshots of dir and removes what crashes left of
// unfinished ones, which raft's store keeps for ever (R24).
func openSnapshots(dir string, logger hclog.Logger) (*snapshotFiles, error) {
	path := filepath.Join(dir, snapshotsDir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, refusef("snapshot directory %s cannot be made: %w", path, err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, refusef("snapshot directory %s cannot be read: %w", path, err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), oldSnapshotParts) {
			if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return nil, refusef("unfinished snapshot %s cannot be removed: %w", e.Name(), err)
			}
		}
	}
	logger = logger.Named("snapshot")
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, logger)
	if err != nil {
		return nil, refusef("snapshot directory %s cannot be used: %w", path, err)
	}
	return &snapshotFiles{files, path, logger}, nil
}

// scan reads all descriptions: good are those that fit their seals, newest first.
func (s *snapshotFiles) scan() (good []*raft.SnapshotMeta, bad []badSnapshot, err error) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		b := badSnapshot{name: e.Name()}
		var made uint64
		_, _ = fmt.Sscanf(b.name, "%d-%d-%d", &b.term, &b.index, &made)
		if !e.IsDir() || b.name != fmt.Sprintf("%d-%d-%d", b.term, b.index, made) {
			continue // not a snapshot
		}
		meta, err := s.meta(b.name)
		if err != nil {
			b.why = err
			bad = append(bad, b)
			continue
		}
		good = append(good, meta)
	}
	slices.SortFunc(good, func(a, b *raft.SnapshotMeta) int {
		return slices.Compare([]uint64{b.Term, b.Index}, []uint64{a.Term, a.Index})
	})
	return good, bad, nil
}

// meta reads a description that fits its seal.
func (s *snapshotFiles) meta(id string) (*raft.SnapshotMeta, error) {
	b, err := os.ReadFile(filepath.Join(s.path, id, snapshotMeta))
	if err != nil {
		return nil, err
	}
	seal, err := os.ReadFile(filepath.Join(s.path, id, snapshotSeal))
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(seal, sealMeta(b)) {
		return nil, errors.New(snapshotMeta + " is not what was written")
	}
	var doc snapshotDoc
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	if doc.ID != id {
		return nil, fmt.Errorf("it says that it is %s", doc.ID)
	}
	return &doc.SnapshotMeta, nil
}

func sealMeta(b []byte) []byte {
	return fmt.Appendf(nil, "%d %08x\n", sealVersion, crc32.Checksum(b, castagnoli))
}

// List implements raft.SnapshotStore.
func (s *snapshotFiles) List() ([]*raft.SnapshotMeta, error) {
	good, bad, err := s.scan()
	for _, b := range bad {
		if !errors.Is(b.why, fs.ErrNotExist) { // not one that is just being removed
			s.logger.Error("damaged snapshot", "name", b.name, "error", b.why)
		}
	}
	return good[:min(len(good), snapshotsKept)], err
}

// remove removes a snapshot that others stand in for.
func (s *snapshotFiles) remove(b badSnapshot) error {
	s.logger.Error("a damaged snapshot is removed, the one before it and the log take over", "name", b.name, "error", b.why)
	if err := os.RemoveAll(filepath.Join(s.path, b.name)); err != nil {
		return refusef("damaged snapshot %s cannot be removed: %w", b.name, err)
	}
	return nil
}

// Create implements raft.SnapshotStore. Snapshots are kept from other users:
// they hold every response.
func (s *snapshotFiles) Create(version raft.SnapshotVersion, index, term uint64,
	configuration raft.Configuration, configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	inner, err := s.FileSnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	sink := &sealingSink{SnapshotSink: inner, path: filepath.Join(s.path, inner.ID()), sum: crc64.New(crc64ECMA)}
	part := sink.path + oldSnapshotParts
	sink.state, err = os.OpenFile(filepath.Join(part, snapshotState), os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, inner.Cancel())
	}
	sink.sync = sink.state.Sync
	err = filepath.WalkDir(part, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(name, 0o700)
		default:
			return os.Chmod(name, 0o600)
		}
	})
	var b []byte
	if err == nil {
		b, err = os.ReadFile(filepath.Join(part, snapshotMeta))
	}
	if err == nil {
		err = json.Unmarshal(b, &sink.doc)
	}
	if err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return sink, nil
}

// Open implements raft.SnapshotStore.
func (s *snapshotFiles) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if _, err := s.meta(id); err != nil {
		return nil, nil, fmt.Errorf("cluster: snapshot %s is damaged: %w", id, err)
	}
	return s.FileSnapshotStore.Open(id)
}

// check reads the state of a snapshot against its checksum.
func (s *snapshotFiles) check(id string) error {
	_, r, err := s.Open(id)
	if err != nil {
		return err
	}
	return r.Close()
}

// sealingSink writes the seal of a snapshot, and syncs it in pieces.
type sealingSink struct {
	raft.SnapshotSink
	path     string      // of the finished snapshot
	doc      snapshotDoc // as raft will write it
	sum      hash.Hash64 // of the state
	state    *os.File    // of raft's sink, opened once more
	sync     func() error
	unsynced int
	over     bool
}

// Write implements raft.SnapshotSink.
func (s *sealingSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	_, _ = s.sum.Write(b[:n])
	s.doc.Size += int64(n)
	if s.unsynced += n; err == nil && s.unsynced >= snapshotSyncEach {
		s.unsynced = 0
		err = s.sync()
	}
	return n, err
}

// Cancel implements raft.SnapshotSink.
func (s *sealingSink) Cancel() error {
	if s.over {
		return nil
	}
	s.over = true
	return errors.Join(s.state.Close(), s.SnapshotSink.Cancel())
}

// Close seals and finishes the snapshot. When it cannot be sealed there is none,
// and the older ones are still there.
func (s *sealingSink) Close() error {
	if s.over {
		return nil
	}
	s.over = true
	if err := s.state.Close(); err != nil {
		return errors.Join(err, s.SnapshotSink.Cancel())
	}
	s.doc.CRC = s.sum.Sum(nil)
	var meta bytes.Buffer
	if err := json.NewEncoder(&meta).Encode(&s.doc); err != nil { // as raft does
		return errors.Join(err, s.SnapshotSink.Cancel())
	}
	if err := writeSeal(s.path+oldSnapshotParts, sealMeta(meta.Bytes())); err != nil {
		return errors.Join(fmt.Errorf("cluster: snapshot %s cannot be sealed: %w", s.SnapshotSink.ID(), err), s.SnapshotSink.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	// raft compacts its log behind this one. It must be one that a start accepts.
	b, err := os.ReadFile(filepath.Join(s.path, snapshotMeta))
	if err == nil && !bytes.Equal(b, meta.Bytes()) {
		err = fmt.Errorf("cluster: %s of snapshot %s is not what was sealed", snapshotMeta, s.SnapshotSink.ID())
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(s.path))
	}
	return nil
}

// writeSeal writes the seal into the directory of an unfinished snapshot. The
// directory is synced too, so that all its names are there when it is renamed.
func writeSeal(dir string, seal []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, snapshotSeal), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(seal)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncDir(dir)
}
