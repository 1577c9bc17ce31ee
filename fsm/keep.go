package fsm

// get finds a record whatever the state of its namespace; nil when absent. It is
// the caller's alone.
func (m *Machine) get(sp *space, key string) *Record {
	r, ok := m.store.find(sp.number, key)
	if mutant == "nospaces" && !ok {
		m.store.records.Scan(func(x ref) bool {
			_, k, _ := m.store.at(x).id()
			r, ok = x, string(k) == key
			return !ok
		})
	}
	if !ok {
		return nil
	}
	return m.store.record(r)
}

// take takes the share of r out of hash and counts. After it the caller may
// change r, and must put it then.
func (m *Machine) take(sp *space, r *Record) {
	m.sum -= m.hashRecord(r)
	sp.add(r, -1)
}

// put stores r in the place of the record of its key, which has been taken if
// there was one. After it nobody changes r.
func (m *Machine) put(sp *space, r *Record) {
	m.sum += m.hashRecord(r)
	sp.add(r, 1)
	m.store.put(sp.number, r)
}

// remove takes out r, which is the record at x, and the pointer of its
// fingerprint with it.
func (m *Machine) remove(sp *space, x ref, r *Record) {
	m.take(sp, r)
	m.store.delete(x)
	if r.Fingerprint != "" {
		m.dropFingerprint(r)
	}
}

func (m *Machine) hashRecord(r *Record) uint64 {
	m.scratch = appendRecord(m.scratch[:0], r)
	return hashOf(m.scratch) + m.hashTally(r.Namespace, r.Key, r.tally())
}

func (m *Machine) hashTally(ns, key string, t tally) uint64 {
	if t == (tally{}) {
		return 0
	}
	m.scratch = appendTally(m.scratch[:0], ns, key, t)
	return hashOf(m.scratch)
}
