package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/raft-wal/types"
)

// Keys of raft.db, beside raft's own, of a node with --log-store wal.
const (
	walStateKey = "WALState" // the segments, as JSON
	walMarkKey  = "WALMark"
)

// walMeta keeps the list of segments in raft.db, under a checksum like term and
// vote, and not in the library's own wal-meta.db, which has none.
type walMeta struct {
	stable *stableStore

	// turning counts the segments that are full and have no successor yet.
	turning sync.WaitGroup
	pending atomic.Bool // turning is 1

	markMu sync.Mutex // guards mark and the order in which it is written
	mark   walMark
}

// walMark is what surely is on the disk, so that its loss is noticed. The
// library takes a damaged end of its last segment for a write that a crash cut
// off, and drops it without a word.
type walMark struct {
	Synced  uint64 // entries up to this index were synced and not deleted at the end
	Created uint64 // id of the newest segment whose file is there; 0: none
}

// load reads state and mark. It tells nobody of damage; found is false when no
// log was ever opened here.
func (m *walMeta) load() (state types.PersistentState, found bool, err error) {
	b, err := m.stable.read([]byte(walStateKey))
	if errors.Is(err, errNotFound) {
		return state, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &state)
	}
	if err != nil {
		return state, true, fmt.Errorf("%s: %w", walStateKey, err)
	}
	b, err = m.stable.read([]byte(walMarkKey))
	m.markMu.Lock()
	defer m.markMu.Unlock()
	m.mark = walMark{}
	switch {
	case errors.Is(err, errNotFound):
		return state, true, nil
	case err == nil && len(b) != 16:
		err = errDamaged
	}
	if err != nil {
		return state, true, fmt.Errorf("%s: %w", walMarkKey, err)
	}
	m.mark = walMark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
	return state, true, nil
}

// setMark changes the mark, durably. change is called under the lock.
func (m *walMeta) setMark(change func(*walMark)) error {
	m.markMu.Lock()
	defer m.markMu.Unlock()
	next := m.mark
	change(&next)
	if next == m.mark {
		return nil
	}
	b := binary.BigEndian.AppendUint64(nil, next.Synced)
	if err := m.stable.Set([]byte(walMarkKey), binary.BigEndian.AppendUint64(b, next.Created)); err != nil {
		return err
	}
	m.mark = next
	return nil
}

func (m *walMeta) getMark() walMark {
	m.markMu.Lock()
	defer m.markMu.Unlock()
	return m.mark
}

// Load implements types.MetaStore.
func (m *walMeta) Load(string) (types.PersistentState, error) {
	state, _, err := m.load()
	return state, err
}

// full is told of a segment that is full; the library makes its successor on
// another goroutine, and begins with CommitState.
func (m *walMeta) full() {
	if !m.pending.Swap(true) {
		m.turning.Add(1)
	}
}

// awaitTurn waits until the library has begun with the successor of a full
// segment; from then on its own lock keeps others waiting. It does not itself:
// a deletion that comes in between gets the wrong segment closed.
func (m *walMeta) awaitTurn() { m.turning.Wait() }

// CommitState implements types.MetaStore.
func (m *walMeta) CommitState(state types.PersistentState) error {
	if m.pending.Swap(false) {
		defer m.turning.Done()
	}
	b, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return m.stable.Set([]byte(walStateKey), b)
}

// GetStable implements types.MetaStore: settings are kept elsewhere.
func (m *walMeta) GetStable([]byte) ([]byte, error) { return nil, errNotFound }

// SetStable implements types.MetaStore: settings are kept elsewhere.
func (m *walMeta) SetStable([]byte, []byte) error { return errors.ErrUnsupported }

// Close implements types.MetaStore: raft.db is closed by who opened it.
func (m *walMeta) Close() error { return nil }
