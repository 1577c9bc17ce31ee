package fsm

import "github.com/tidwall/btree"

// get finds a record whatever the state of its namespace; nil when absent.
func (m *Machine) get(sp *space, key string) *Record {
	return m.look(sp, key, nil)
}

// getToWrite is get for Apply alone: what is put next finds its place sooner.
func (m *Machine) getToWrite(sp *space, key string) *Record {
	m.store.hint = btree.PathHint{} // of another key, it would only cost
	return m.look(sp, key, &m.store.hint)
}

func (m *Machine) look(sp *space, key string, hint *btree.PathHint) *Record {
	r, ok := m.store.find(sp.number, key, hint)
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

// take takes the share of r out of hash and counts. What getToWrite gave is the
// caller's alone: after take it may change it, and must put it then.
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
	return hashOf(m.scratch)
}
