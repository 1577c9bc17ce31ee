package fsm

import (
	"sort"

	"github.com/tidwall/btree"
)

// NamespaceStats counts the records of a namespace by view status.
type NamespaceStats struct {
	Records   int64 // all of them, tombstones included
	Bytes     int64 // as maxBytes counts them
	Pending   int64 // lease live
	Uncertain int64 // pending, lease over
	Committed int64 // ttl live
	Failed    int64 // ttl live
	Released  int64
	Cancelled int64
	Expired   int64 // committed or failed, ttl over

	// OldestUncertain is when the lease ended that has been over for longest;
	// 0 when nothing is uncertain.
	OldestUncertain Time
}

// Stats counts the records of every live namespace as seen at now. It takes a
// bounded time: of outcomes whose ttl is over and which no sweep has reached,
// the 10,000 oldest count as expired and the rest as what they were.
func (m *Machine) Stats(now Time) map[string]NamespaceStats {
	out := make(map[string]NamespaceStats, len(m.spaces))
	for name, sp := range m.spaces {
		if sp.ns.Retired {
			continue
		}
		st := NamespaceStats{
			Records: sp.records, Bytes: sp.bytes,
			Committed: sp.count[Committed] - sp.dropped[Committed],
			Failed:    sp.count[Failed] - sp.dropped[Failed],
			Released:  sp.count[Released], Cancelled: sp.count[Cancelled],
			Expired: sp.dropped[Committed] + sp.dropped[Failed],
		}
		st.Uncertain = int64(m.store.countUntil(m.store.leases, packed.at, name, now))
		st.Pending = sp.count[Pending] - st.Uncertain
		if st.Uncertain > 0 {
			first, _ := m.store.seek(m.store.leases, 0, sp.number, "")
			st.OldestUncertain = m.store.at(first).at()
		}
		out[name] = st
	}
	visited := 0
	m.store.dues.Scan(func(x ref) bool {
		b := m.store.at(x)
		if now < b.at() || visited == maxVisited {
			return false
		}
		visited++
		number, _, _ := b.id()
		name := m.store.names[number]
		st, live := out[name]
		if live && b.lifetime() == usual {
			if b.status() == Committed {
				st.Committed--
			} else {
				st.Failed--
			}
			st.Expired++
			out[name] = st
		}
		return true
	})
	return out
}

// rank counts the items of t that come before the first one that is not in.
func rank[T any](t *btree.BTreeG[T], in func(T) bool) int {
	return sort.Search(t.Len(), func(i int) bool {
		it, _ := t.GetAt(i)
		return !in(it)
	})
}

// countUntil counts the items of ns at or before now in an order that begins
// with the namespace.
func (s *store) countUntil(t *btree.BTreeG[ref], at func(packed) Time, ns string, now Time) int {
	name := func(b packed) string {
		number, _, _ := b.id()
		return s.names[number]
	}
	before := rank(t, func(x ref) bool { return name(s.at(x)) < ns })
	until := rank(t, func(x ref) bool {
		b := s.at(x)
		n := name(b)
		return n < ns || n == ns && at(b) <= now
	})
	return until - before
}
