package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walFiles is the file system that hashicorp/raft-wal v0.4.0 works on. The
// library's own makes files that others may read, never syncs the directory for
// a file that was made before a crash and only opened after it, and syncs
// metadata with every append. Here a segment has its full size, durably, with
// its name, before anything is written into it: a shorter one was cut off.
type walFiles struct{}

// ListDir implements types.VFS.
func (walFiles) ListDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Create implements types.VFS. On an error nothing is left behind.
func (walFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = allocate(f, int64(size))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return walFile{f}, nil
}

// Delete implements types.VFS. It is not synced: what comes back after a crash
// is deleted again, because raft.db no longer names it.
func (walFiles) Delete(dir, name string) error { return os.Remove(filepath.Join(dir, name)) }

// OpenReader implements types.VFS.
func (walFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	return os.Open(filepath.Join(dir, name))
}

// OpenWriter implements types.VFS.
func (walFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return walFile{f}, nil
}

type walFile struct{ *os.File }

// Sync makes what was written durable. Its error is never one of missing space
// that could be tried again: what a failed sync has left nobody knows.
func (f walFile) Sync() error {
	if mutant == "nosync" {
		return nil
	}
	if err := syncData(f.File); err != nil {
		return fmt.Errorf("sync %s: %v", f.Name(), err)
	}
	return nil
}

// walFiler is the library's own, mended.
type walFiler struct {
	*segment.Filer
	// created is told of a segment file that is durably there, before anything
	// is written into it.
	created func(id uint64) error
	// full is told of a segment that is full, before the append that filled it
	// is answered.
	full func()
}

// Create implements types.SegmentFiler.
func (f walFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := f.Filer.Create(info)
	if err != nil {
		return nil, err
	}
	if err := f.created(info.ID); err != nil {
		return nil, errors.Join(err, w.Close(), f.Delete(info.BaseIndex, info.ID))
	}
	return walWriter{w, f.full}, nil
}

// RecoverTail implements types.SegmentFiler.
func (f walFiler) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := f.Filer.RecoverTail(info)
	if err != nil {
		return nil, err
	}
	return walWriter{w, f.full}, nil
}

type walWriter struct {
	types.SegmentWriter
	full func()
}

// Sealed implements types.SegmentWriter. The library asks after each append.
func (w walWriter) Sealed() (bool, uint64, error) {
	sealed, index, err := w.SegmentWriter.Sealed()
	if sealed && err == nil {
		w.full()
	}
	return sealed, index, err
}

// Open implements types.SegmentFiler. A segment that a deleted suffix cut short
// has no index block, and the library cannot read it after a restart
// (hashicorp/raft-wal#31, mended after its last release): it is read like a tail,
// by walking it once.
func (f walFiler) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart == 0 {
		return f.Filer.RecoverTail(info)
	}
	return f.Filer.Open(info)
}
