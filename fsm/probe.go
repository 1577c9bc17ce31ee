package fsm

import (
	"encoding/binary"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/btree"
)

// A tree compares refs, so a place in it that is looked for must have one too: it
// is written into a probe, as the head of a record that is nowhere. Readers seek
// at the same time; a few probes, told apart by the key, keep them out of each
// other's way.
const (
	probeRef   ref = 1 << 31
	probeCount     = 16
)

type probe struct {
	mu   sync.Mutex // guards head
	head packed
}

// seek gives the first item of t that is not before (at, space, key) in the
// order of t.
func (s *store) seek(t *btree.BTreeG[ref], at Time, space uint32, key string) (r ref, ok bool) {
	slot, p := s.probe(at, space, key)
	defer p.mu.Unlock()
	t.Ascend(slot, func(x ref) bool {
		r, ok = x, true
		return false
	})
	return r, ok
}

// probe gives one that says this, locked.
func (s *store) probe(at Time, space uint32, key string) (ref, *probe) {
	slot := ref(xxhash.Sum64String(key) % probeCount)
	p := &s.probes[slot]
	p.mu.Lock()
	p.head = append(appendHead(p.head[:0], at, 0, space, key), 0, 0) // ttl and retention 0
	return probeRef | slot, p
}

// ascend visits the items of t from (at, space, key) on, until visit says no.
func (s *store) ascend(t *btree.BTreeG[ref], at Time, space uint32, key string, visit func(ref) bool) {
	if first, ok := s.seek(t, at, space, key); ok {
		t.Ascend(first, visit)
	}
}

func putLength(b []byte, n int) { binary.LittleEndian.PutUint32(b, uint32(n)) }

func lengthAt(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }
