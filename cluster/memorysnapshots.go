package cluster

import (
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// memorySnapshots keeps the newest snapshot in memory. raft's own store of that
// kind gives out one that is still being written, or was given up, and has
// nothing else then.
type memorySnapshots struct {
	mu     sync.Mutex
	newest *raft.InmemSnapshotStore
}

func newMemorySnapshots() *memorySnapshots {
	return &memorySnapshots{newest: raft.NewInmemSnapshotStore()}
}

func (s *memorySnapshots) present() *raft.InmemSnapshotStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// Create implements raft.SnapshotStore. The snapshot is there once it is closed.
func (s *memorySnapshots) Create(version raft.SnapshotVersion, index, term uint64,
	configuration raft.Configuration, configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	next := raft.NewInmemSnapshotStore()
	sink, err := next.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	return &memorySink{SnapshotSink: sink, store: s, next: next}, nil
}

// List implements raft.SnapshotStore.
func (s *memorySnapshots) List() ([]*raft.SnapshotMeta, error) { return s.present().List() }

// Open implements raft.SnapshotStore.
func (s *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return s.present().Open(id)
}

type memorySink struct {
	raft.SnapshotSink
	store *memorySnapshots
	next  *raft.InmemSnapshotStore
	over  bool
}

// Close implements raft.SnapshotSink.
func (k *memorySink) Close() error {
	if !k.over {
		k.store.mu.Lock()
		k.store.newest = k.next
		k.store.mu.Unlock()
	}
	k.over = true
	return k.SnapshotSink.Close()
}

// Cancel implements raft.SnapshotSink.
func (k *memorySink) Cancel() error {
	k.over = true
	return k.SnapshotSink.Cancel()
}
