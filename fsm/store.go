package fsm

import "github.com/tidwall/btree"

// ref is the number of a record, the same for as long as the record is there. It
// is no pointer, so a tree of refs costs the garbage collector nothing, however
// many records there are. Those with the highest bit are probes.
type ref uint32

// tally counts what was answered with a record from memory. It is not part of
// its packed form, which would have to be written anew for each replay.
type tally struct {
	replays uint64
	last    Time
}

// store keeps the records, packed, and the orders they are found in. Its trees
// compare what the refs in them stand for, so a record is taken out of an order
// before its place there changes. A record that changes is written anew; only
// places knows where it lies.
type store struct {
	*pages
	names   []string // of namespaces, by number; only ever appended to
	places  table[place]
	tallies table[tally]
	next    ref   // never given out yet
	vacant  []ref // of records that are gone
	index   index
	records *btree.BTreeG[ref] // by (namespace, key)
	dues    *btree.BTreeG[ref] // settled, released, cancelled by (due, namespace, key)
	leases  *btree.BTreeG[ref] // pending by (namespace, lease end, key)
	lapses  *btree.BTreeG[ref] // pending under rerun by (namespace, removal, key)
	packing []byte
	probes  [probeCount]probe
}

func newStore() *store {
	s := &store{pages: newPages(), index: newIndex()}
	s.records = newTree(s.byKey)
	s.dues = newTree(s.byTime)
	s.leases = newTree(func(a, b ref) bool { return s.bySpace(a, b, packed.at) })
	s.lapses = newTree(func(a, b ref) bool { return s.bySpace(a, b, packed.lapse) })
	return s
}

// at gives the packed record r; it may be longer than the record.
func (s *store) at(r ref) packed {
	if r&probeRef != 0 {
		return s.probes[r&^probeRef].head
	}
	return s.bytes(s.places.at(r))
}

func (s *store) byKey(a, b ref) bool {
	packedA, packedB := s.at(a), s.at(b)
	if keyA, ok := packedA.shortKey(); ok && packedA[spaceAt] == packedB[spaceAt] {
		if keyB, ok := packedB.shortKey(); ok {
			return string(keyA) < string(keyB)
		}
	}
	spaceA, keyA, _ := packedA.id()
	spaceB, keyB, _ := packedB.id()
	if spaceA != spaceB {
		return s.names[spaceA] < s.names[spaceB]
	}
	return string(keyA) < string(keyB)
}

func (s *store) byTime(a, b ref) bool {
	if atA, atB := s.at(a).at(), s.at(b).at(); atA != atB {
		return atA < atB
	}
	return s.byKey(a, b)
}

func (s *store) bySpace(a, b ref, at func(packed) Time) bool {
	packedA, packedB := s.at(a), s.at(b)
	spaceA, keyA, _ := packedA.id()
	spaceB, keyB, _ := packedB.id()
	if spaceA != spaceB {
		return s.names[spaceA] < s.names[spaceB]
	}
	if atA, atB := at(packedA), at(packedB); atA != atB {
		return atA < atB
	}
	return string(keyA) < string(keyB)
}

// record unpacks r.
func (s *store) record(r ref) *Record {
	rec := new(Record)
	s.read(rec, r)
	return rec
}

// read unpacks r into rec.
func (s *store) read(rec *Record, r ref) {
	b := s.at(r)
	space, _, _ := b.id()
	unpack(rec, b, s.names[space])
	rec.replayed(s.tallies.at(r))
}

func (r *Record) tally() tally { return tally{r.Replays, r.LastReplayedAt} }

func (r *Record) replayed(t tally) { r.Replays, r.LastReplayedAt = t.replays, t.last }

// find gives the record of key.
func (s *store) find(space uint32, key string) (ref, bool) {
	return s.index.find(s.index.hash(space, key), func(r ref) bool {
		number, k, _ := s.at(r).id()
		return number == space && string(k) == key
	})
}

// put stores r in the place of the record of its key, if there is one.
func (s *store) put(space uint32, r *Record) {
	x, ok := s.find(space, r.Key)
	if !ok {
		x = s.keep(space, r)
		s.records.Set(x)
		for _, o := range s.orders() {
			if o.holds(s.at(x)) {
				o.tree.Set(x)
			}
		}
		return
	}
	was := s.places.at(x)
	now := s.write(space, r)
	var into [orderCount]bool
	for i, o := range s.orders() {
		before, after := s.bytes(was), s.bytes(now)
		had, has := o.holds(before), o.holds(after)
		stays := had && has && o.time(before) == o.time(after)
		if had && !stays {
			o.tree.Delete(x)
		}
		into[i] = has && !stays
	}
	s.places.set(x, now)
	s.setTally(x, r.tally())
	for i, o := range s.orders() {
		if into[i] {
			o.tree.Set(x)
		}
	}
	s.free(was)
}

// keep stores r, whose key is new, where it can be found, but in no tree.
func (s *store) keep(space uint32, r *Record) ref {
	x := s.next
	if n := len(s.vacant); n > 0 {
		x, s.vacant = s.vacant[n-1], s.vacant[:n-1]
	} else {
		s.next++
	}
	s.places.set(x, s.write(space, r))
	s.setTally(x, r.tally())
	s.index.add(s.index.hash(space, r.Key), x)
	return x
}

func (s *store) write(space uint32, r *Record) place {
	s.packing = pack(s.packing[:0], r, space)
	return s.add(packed(s.packing).lifetime(), s.packing)
}

func (s *store) setTally(x ref, t tally) {
	if t != s.tallies.at(x) { // or a chunk would be made for nothing
		s.tallies.set(x, t)
	}
}

// delete takes out the record at x.
func (s *store) delete(x ref) {
	s.records.Delete(x)
	for _, o := range s.orders() {
		if o.holds(s.at(x)) {
			o.tree.Delete(x)
		}
	}
	space, key, _ := s.at(x).id()
	s.index.remove(s.index.hashBytes(space, key), x)
	s.free(s.places.at(x))
	s.places.set(x, 0)
	s.setTally(x, tally{})
	s.vacant = append(s.vacant, x)
}

// tidy moves what is live out of the pages with the most dead bytes, until no
// more than a third of the memory is dead.
func (s *store) tidy() {
	for no, ok := s.worst(); ok; no, ok = s.worst() {
		s.shut(no) // nothing is moved into it
		s.each(no, func(at place, b []byte) {
			space, key, _ := packed(b).id()
			x, ok := s.index.find(s.index.hashBytes(space, key), func(x ref) bool { return s.places.at(x) == at })
			if ok {
				s.places.set(x, s.add(packed(b).lifetime(), b))
			}
		})
		s.drop(no)
	}
}

const orderCount = 3

// order is one of the orders over time, and which records are in it.
type order struct {
	tree  *btree.BTreeG[ref]
	time  func(packed) Time
	holds func(packed) bool
}

func (s *store) orders() [orderCount]order {
	return [...]order{
		{s.dues, packed.at, packed.isDue},
		{s.leases, packed.at, packed.isPending},
		{s.lapses, packed.lapse, packed.mayLapse},
	}
}

func (b packed) isPending() bool { return b.status() == Pending }

func (b packed) isDue() bool { return b.status() != Pending }

// mayLapse tells whether b is a pending claim made under onLeaseExpiry rerun.
// Any other pending claim is never removed.
func (b packed) mayLapse() bool {
	return b.isPending() && (b.flags()&flagRerunOnLeaseExpiry != 0 || mutant == "sweepuncertain")
}
