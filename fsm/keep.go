package fsm

// get finds a record whatever the state of its namespace; nil when absent.
func (m *Machine) get(sp *space, key string) *Record {
	r, ok := m.store.seek(m.store.records, 0, sp.number, key, true)
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

// put stores r in the place of old, which is nil for a key that was absent,
// and keeps counts and hash in step.
func (m *Machine) put(sp *space, old, r *Record) {
	m.sum += m.hashRecord(r)
	sp.add(r, 1)
	if old != nil {
		m.sum -= m.hashRecord(old)
		sp.add(old, -1)
	}
	m.store.put(sp.number, r)
}

// remove takes r out, and the pointer of its fingerprint with it.
func (m *Machine) remove(sp *space, r *Record) {
	m.sum -= m.hashRecord(r)
	sp.add(r, -1)
	m.store.delete(sp.number, r.Key)
	if r.Fingerprint != "" {
		m.dropFingerprint(r)
	}
}

func (m *Machine) hashRecord(r *Record) uint64 {
	m.scratch = appendRecord(m.scratch[:0], r)
	return hashOf(m.scratch)
}
