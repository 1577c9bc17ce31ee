package fsm

import "strings"

// maxVisited bounds what one call of Records looks at, so that a listing whose
// filter matches little cannot hold up Apply.
const maxVisited = 10_000

// ListOptions select a page of records in key order.
type ListOptions struct {
	Status string // a view status, "" for any
	Prefix string // keys that begin with it
	After  string // keys after this one: the next of the page before
	Limit  int    // at most this many; values below 1 mean 1
}

// Record gives the record of key, nil and false where the namespace or the key
// is not there.
func (m *Machine) Record(ns, key string) (*Record, bool) {
	sp, ok := m.spaces[ns]
	if !ok || sp.ns.Retired {
		return nil, false
	}
	r := m.get(sp, key)
	return r, r != nil
}

// Records gives a page of ns in key order. next is the After of the following
// page, "" at the end; a page may hold fewer than Limit records, or none, and
// still have a next, because at most 10,000 records are visited in a call.
func (m *Machine) Records(ns string, o ListOptions, now Time) (recs []*Record, next string) {
	sp, ok := m.spaces[ns]
	if !ok || sp.ns.Retired {
		return nil, ""
	}
	limit := max(1, o.Limit)
	visited, last := 0, ""
	m.store.ascend(m.store.records, 0, sp.number, max(o.Prefix, o.After), func(x ref) bool {
		space, id, _ := m.store.at(x).id()
		key := string(id)
		switch {
		case space != sp.number || !strings.HasPrefix(key, o.Prefix):
			return false
		case key == o.After:
			return true
		case len(recs) == limit || visited == maxVisited:
			next = last
			return false
		}
		visited++
		last = key
		r := m.store.record(x)
		if o.Status != "" {
			if status, _, _ := m.ViewStatus(r, now); status != o.Status {
				return true
			}
		}
		recs = append(recs, r)
		return true
	})
	return recs, next
}

// ViewStatus gives the status of r as callers see it at now: the stored one,
// uncertain (takeover tells that a reserve would take it over), or expired
// (verdict tells whether committed or failed).
func (m *Machine) ViewStatus(r *Record, now Time) (status, verdict string, takeover bool) {
	switch {
	case r.Status == Pending && now < r.LeaseExpiresAt:
		return "pending", "", false
	case r.Status == Pending:
		sp, ok := m.spaces[r.Namespace]
		return "uncertain", "", ok && !sp.ns.Retired && mayTakeOver(r, sp.ns)
	case ttlOver(r, now):
		return "expired", statusText(r.Status), false
	}
	return statusText(r.Status), "", false
}

func statusText(s Status) string {
	switch s {
	case Committed:
		return "committed"
	case Failed:
		return "failed"
	case Released:
		return "released"
	case Cancelled:
		return "cancelled"
	}
	return "pending"
}

// Namespace gives a namespace, retired ones too.
func (m *Machine) Namespace(name string) (*Namespace, bool) {
	sp, ok := m.spaces[name]
	if !ok {
		return nil, false
	}
	return sp.ns, true
}

// Namespaces gives the live namespaces in name order.
func (m *Machine) Namespaces() []*Namespace {
	var out []*Namespace
	m.names.Scan(func(ns *Namespace) bool {
		if !ns.Retired {
			out = append(out, ns)
		}
		return true
	})
	return out
}
