package fsm

import "hash/maphash"

// index finds the ref of a key: hash tables by open addressing, without
// pointers. There are many, chosen by the first bits of the hash, so that one
// that grows holds up nobody for long. The hash is seeded, so that nobody can
// choose keys that collide; nothing ever goes through an index in its order, so
// the seed reaches no result.
type index struct {
	seed   maphash.Seed
	shards [256]shard
}

// shard has a power of two of slots, at most three quarters of them in use. A
// slot is 0, or the lower half of the hash over the ref plus 1.
type shard struct {
	slots []uint64
	used  int
}

func newIndex() index { return index{seed: maphash.MakeSeed()} }

func slotOf(h uint64, r ref) uint64 { return h<<32 | uint64(r+1) }

func refIn(slot uint64) ref { return ref(uint32(slot)) - 1 }

func (x *index) hash(space uint32, key string) uint64 {
	return spread(maphash.String(x.seed, key), space)
}

func (x *index) hashBytes(space uint32, key []byte) uint64 {
	return spread(maphash.Bytes(x.seed, key), space)
}

func spread(h uint64, space uint32) uint64 { return h ^ uint64(space)*0x9e3779b97f4a7c15 }

// find gives the ref with this hash that is the one.
func (x *index) find(h uint64, is func(ref) bool) (ref, bool) {
	s := &x.shards[h>>56]
	if s.used == 0 {
		return 0, false
	}
	mask := len(s.slots) - 1
	for i := int(uint32(h)) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if slot := s.slots[i]; uint32(slot>>32) == uint32(h) && is(refIn(slot)) {
			return refIn(slot), true
		}
	}
	return 0, false
}

// add puts in a ref that is not there.
func (x *index) add(h uint64, r ref) {
	s := &x.shards[h>>56]
	if (s.used+1)*4 > len(s.slots)*3 {
		s.grow()
	}
	s.put(slotOf(h, r))
	s.used++
}

func (s *shard) put(slot uint64) {
	mask := len(s.slots) - 1
	i := int(slot>>32) & mask
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = slot
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]uint64, max(8, 2*len(old)))
	for _, slot := range old {
		if slot != 0 {
			s.put(slot)
		}
	}
}

// remove takes out a ref that is there, and moves up what was pushed on by it.
func (x *index) remove(h uint64, r ref) {
	s := &x.shards[h>>56]
	mask := len(s.slots) - 1
	gap := int(uint32(h)) & mask
	for s.slots[gap] != slotOf(h, r) {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if home := int(s.slots[i]>>32) & mask; (i-home)&mask >= (i-gap)&mask {
			s.slots[gap], gap = s.slots[i], i
		}
	}
	s.slots[gap] = 0
	s.used--
}
