package fsm

// deadline is a record in an index over time. It holds the record itself, so
// every change of the record renews it.
type deadline struct {
	at  Time
	rec *Record
}

func byKey(a, b *Record) bool {
	if a.Namespace != b.Namespace {
		return a.Namespace < b.Namespace
	}
	return a.Key < b.Key
}

func byTime(a, b deadline) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return byKey(a.rec, b.rec)
}

func bySpace(a, b deadline) bool {
	switch {
	case a.rec.Namespace != b.rec.Namespace:
		return a.rec.Namespace < b.rec.Namespace
	case a.at != b.at:
		return a.at < b.at
	}
	return a.rec.Key < b.rec.Key
}

// get finds a record whatever the state of its namespace; nil when absent.
func (m *Machine) get(ns, key string) *Record {
	probe := m.probes.Get().(*Record)
	probe.Namespace, probe.Key = ns, key
	r, _ := m.records.Get(probe)
	if mutant == "nospaces" && r == nil {
		m.records.Scan(func(x *Record) bool {
			if x.Key == key {
				r = x
			}
			return r == nil
		})
	}
	probe.Namespace, probe.Key = "", ""
	m.probes.Put(probe)
	return r
}

// put stores r in the place of old, which is nil for a key that was absent,
// and keeps indexes, counts and hash in step.
func (m *Machine) put(sp *space, old, r *Record) {
	m.scratch = appendRecord(m.scratch[:0], r)
	r.hash = hashOf(m.scratch)
	m.sum += r.hash
	m.records.Set(r)
	sp.add(r, 1)
	if old != nil {
		m.sum -= old.hash
		sp.add(old, -1)
	}
	m.reindex(old, r)
}

// remove takes r out, and the pointer of its fingerprint with it.
func (m *Machine) remove(sp *space, r *Record) {
	m.sum -= r.hash
	m.records.Delete(r)
	sp.add(r, -1)
	m.reindex(r, nil)
	if r.Fingerprint != "" {
		m.dropFingerprint(r)
	}
}

// reindex moves a record in the three indexes over time.
func (m *Machine) reindex(old, r *Record) {
	type tree interface {
		Set(deadline) (deadline, bool)
		Delete(deadline) (deadline, bool)
	}
	move := func(t tree, at func(*Record) (Time, bool)) {
		var was, is Time
		var had, has bool
		if old != nil {
			was, had = at(old)
		}
		if r != nil {
			is, has = at(r)
		}
		if had && (!has || was != is) {
			t.Delete(deadline{was, old})
		}
		if has {
			t.Set(deadline{is, r})
		}
	}
	move(m.dues, dueOf)
	move(m.leases, leaseOf)
	move(m.lapses, lapseOf)
}

// dueOf is when a sweep next has something to do to a record that is not
// pending.
func dueOf(r *Record) (Time, bool) {
	switch {
	case r.Status == Pending:
		return 0, false
	case r.Settled() && !r.Dropped:
		return min(r.ExpiresAt, r.RetainedUntil), true
	}
	return r.RetainedUntil, true
}

func leaseOf(r *Record) (Time, bool) {
	return r.LeaseExpiresAt, r.Status == Pending
}

// lapseOf is when a pending claim made under onLeaseExpiry rerun is removed,
// should its namespace still say rerun then. Any other pending claim is never
// removed.
func lapseOf(r *Record) (Time, bool) {
	if r.Status != Pending || !r.RerunOnLeaseExpiry && mutant != "sweepuncertain" {
		return 0, false
	}
	return r.LeaseExpiresAt.Add(r.TTL + r.Retention), true
}
