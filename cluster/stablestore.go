package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// stableKeys are the settings that raft v1.7.3 keeps, and ours.
var stableKeys = []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand", walStateKey, walMarkKey}

// errNotFound has the text that raft compares with (R21).
var errNotFound = errors.New("not found")

// stableStore is a raft.StableStore whose values carry a CRC32C of key and
// value: a flipped bit in a term or a vote could elect two leaders of one term.
type stableStore struct {
	inner raft.StableStore
	guard storeGuard
}

func stableSum(key, val []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, val)
	return binary.BigEndian.AppendUint32(nil, sum)
}

// Set implements raft.StableStore.
func (s *stableStore) Set(key, val []byte) error {
	sealed := append(append(make([]byte, 0, len(val)+4), val...), stableSum(key, val)...)
	what := "store " + string(key)
	err := s.guard.write(what, func() error { return s.inner.Set(key, sealed) })
	if noSpace(err) && string(key) == stableKeys[0] {
		// raft panics when it cannot store its term.
		s.guard.onDamage(&HaltError{ExitStalled, fmt.Errorf("%s: %w", what, err)})
	}
	return err
}

// Get implements raft.StableStore.
func (s *stableStore) Get(key []byte) (val []byte, err error) {
	err = s.guard.run(string(key), func() (err error) { val, err = s.read(key); return err })
	return val, err
}

// read is Get that tells nobody.
func (s *stableStore) read(key []byte) ([]byte, error) {
	b, err := s.inner.Get(key)
	if err != nil {
		if err.Error() == errNotFound.Error() {
			return nil, errNotFound
		}
		if storeClosed(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	n := len(b) - 4
	if n < 0 || string(b[n:]) != string(stableSum(key, b[:n])) {
		return nil, fmt.Errorf("%w: wrong checksum", errDamaged)
	}
	return b[:n:n], nil
}

// SetUint64 implements raft.StableStore.
func (s *stableStore) SetUint64(key []byte, val uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 implements raft.StableStore.
func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%s: %w: %d bytes", key, errDamaged, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
