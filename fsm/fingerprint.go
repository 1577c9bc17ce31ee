package fsm

import "strconv"

// fingerprint points from a fingerprint to the key of its latest claim.
type fingerprint struct {
	namespace, text, key string
	hash                 uint64
}

func byFingerprint(a, b fingerprint) bool {
	if a.namespace != b.namespace {
		return a.namespace < b.namespace
	}
	return a.text < b.text
}

const minute = 60_000_000 // in microseconds

// fingerprintKey is the key that a fingerprint means now (semantics.md section
// 9): that of its latest claim while it is pending, uncertain or settled less
// than the window ago, so that a retry across the minute is a duplicate;
// otherwise the one of the present minute.
func (m *Machine) fingerprintKey(sp *space, text string) string {
	if p, ok := m.prints.Get(fingerprint{namespace: sp.ns.Name, text: text}); ok {
		if r := m.get(sp, p.key); r != nil {
			if r.Status == Pending || r.Settled() && m.now < r.SettledAt.Add(sp.ns.Policy.FingerprintWindow) {
				return p.key
			}
		}
	}
	return text + ":" + strconv.FormatInt(int64(m.now/minute), 10)
}

// pointFingerprint makes r the latest claim of its fingerprint.
func (m *Machine) pointFingerprint(r *Record) {
	m.keepFingerprint(fingerprint{namespace: r.Namespace, text: r.Fingerprint, key: r.Key})
}

func (m *Machine) keepFingerprint(p fingerprint) {
	m.scratch = appendFingerprint(m.scratch[:0], p)
	p.hash = hashOf(m.scratch)
	m.sum += p.hash
	if old, ok := m.prints.Set(p); ok {
		m.sum -= old.hash
	}
}

// dropFingerprint takes the pointer away with the record it points to. A
// pointer that a later claim has moved on stays.
func (m *Machine) dropFingerprint(r *Record) {
	probe := fingerprint{namespace: r.Namespace, text: r.Fingerprint}
	if p, ok := m.prints.Get(probe); ok && p.key == r.Key {
		m.sum -= p.hash
		m.prints.Delete(probe)
	}
}
