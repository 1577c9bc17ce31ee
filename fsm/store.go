package fsm

import "github.com/tidwall/btree"

// store keeps the records, packed, and the orders they are found in. Its trees
// compare what the refs in them point to; a record that changes is written
// anew, and every tree that holds it is given the new ref.
type store struct {
	*pages
	names   []string           // of namespaces, by number; only ever appended to
	records *btree.BTreeG[ref] // by (namespace, key)
	dues    *btree.BTreeG[ref] // settled, released, cancelled by (due, namespace, key)
	leases  *btree.BTreeG[ref] // pending by (namespace, lease end, key)
	lapses  *btree.BTreeG[ref] // pending under rerun by (namespace, removal, key)
	packing []byte
	hint    btree.PathHint // where the last look-up of a writer ended in records
}

func newStore() *store {
	s := &store{pages: newPages()}
	s.records = newTree(s.byKey)
	s.dues = newTree(s.byTime)
	s.leases = newTree(func(a, b ref) bool { return s.bySpace(a, b, packed.at) })
	s.lapses = newTree(func(a, b ref) bool { return s.bySpace(a, b, packed.lapse) })
	return s
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

// record unpacks the one at r.
func (s *store) record(r ref) *Record {
	rec := new(Record)
	s.read(rec, r)
	return rec
}

// read unpacks the one at r into rec.
func (s *store) read(rec *Record, r ref) {
	b := s.at(r)
	space, _, _ := b.id()
	unpack(rec, b, s.names[space])
}

// write keeps r and gives where.
func (s *store) write(space uint32, r *Record) ref {
	s.packing = pack(s.packing[:0], r, space)
	return s.add(packed(s.packing).lifetime(), s.packing)
}

// put stores r in the place of the record of its key, if there is one.
func (s *store) put(space uint32, r *Record) {
	now := s.write(space, r)
	was, replaced := s.records.SetHint(now, &s.hint)
	for _, o := range s.orders() {
		had := replaced && o.holds(s.at(was))
		has := o.holds(s.at(now))
		// Where it keeps its place, Set replaces it.
		if had && (!has || o.time(s.at(was)) != o.time(s.at(now))) {
			o.tree.Delete(was)
		}
		if has {
			o.tree.Set(now)
		}
	}
	if replaced {
		s.free(was)
	}
	s.hint = btree.PathHint{} // what is put next without a look-up is elsewhere
}

// delete takes out the record at r.
func (s *store) delete(r ref) {
	s.records.Delete(r)
	for _, o := range s.orders() {
		if o.holds(s.at(r)) {
			o.tree.Delete(r)
		}
	}
	s.free(r)
}

// tidy moves what is live out of the pages with the most dead bytes, until no
// more than a third of the memory is dead. Every ref that was held outside the
// trees is void after it.
func (s *store) tidy() {
	for no, ok := s.worst(); ok; no, ok = s.worst() {
		s.shut(no) // nothing is moved into it
		s.each(no, func(r ref, b []byte) {
			if is, ok := s.records.Get(r); !ok || is != r {
				return
			}
			moved := s.add(packed(b).lifetime(), b)
			s.records.Set(moved)
			for _, o := range s.orders() {
				if o.holds(b) {
					o.tree.Set(moved)
				}
			}
		})
		s.drop(no)
	}
}

// order is one of the orders over time, and which records are in it.
type order struct {
	tree  *btree.BTreeG[ref]
	time  func(packed) Time
	holds func(packed) bool
}

func (s *store) orders() [3]order {
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
