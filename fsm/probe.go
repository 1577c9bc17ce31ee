package fsm

import (
	"encoding/binary"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/btree"
)

// A tree compares refs, so what is looked for must have one too: it is written
// into a probe, as the head of a record that is nowhere. Readers look up at the
// same time; a few probes, told apart by the key, keep them out of each
// other's way.
const (
	probeRef   ref = 1 << 63
	probeCount     = 16
)

type probe struct {
	mu   sync.Mutex // guards head
	head packed
}

// seek gives the first item of t that is not before (at, space, key) in the
// order of t, or with exact the item that is there.
func (p *pages) seek(t *btree.BTreeG[ref], at Time, space uint32, key string, exact bool) (r ref, ok bool) {
	slot := ref(xxhash.Sum64String(key) % probeCount)
	probe := &p.probes[slot]
	probe.mu.Lock()
	defer probe.mu.Unlock()
	probe.head = append(appendHead(probe.head[:0], at, 0, space, key), 0, 0) // ttl and retention 0
	if exact {
		return t.Get(probeRef | slot)
	}
	t.Ascend(probeRef|slot, func(x ref) bool {
		r, ok = x, true
		return false
	})
	return r, ok
}

// ascend visits the items of t from (at, space, key) on, until visit says no.
func (p *pages) ascend(t *btree.BTreeG[ref], at Time, space uint32, key string, visit func(ref) bool) {
	if first, ok := p.seek(t, at, space, key, false); ok {
		t.Ascend(first, visit)
	}
}

func putLength(b []byte, n int) { binary.LittleEndian.PutUint32(b, uint32(n)) }

func lengthAt(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }
