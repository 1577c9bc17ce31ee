package fsm

// sweep does what is due, at most the command's limit of records, in expiry
// order: first the namespaces that were deleted by force, then outcomes,
// releases and cancellations, then lapsed claims under onLeaseExpiry rerun.
// What it does to each state is the sweep row of semantics.md section 11. A
// claim that is uncertain is in none of these orders: it is never removed, and
// costs a sweep nothing.
func (m *Machine) sweep(c *Command) Result {
	left := int(min(c.Limit, MaxSweep))
	if left == 0 {
		left = DefaultSweepLimit
	}
	res := Result{Outcome: OutcomeSwept}
	left = m.drain(left, &res)
	left = m.sweepDue(left, &res)
	m.sweepLapsed(left, &res)
	res.Remaining = m.remainingDue()
	res.Changed = res.Dropped+res.Tombstoned > 0
	return res
}

// drain removes records of deleted namespaces, in key order.
func (m *Machine) drain(left int, res *Result) int {
	for left > 0 && len(m.draining) > 0 {
		sp := m.draining[0]
		var batch []ref
		m.store.ascend(m.store.records, 0, sp.number, "", func(x ref) bool {
			if space, _, _ := m.store.at(x).id(); space != sp.number || len(batch) == left {
				return false
			}
			batch = append(batch, x)
			return true
		})
		for _, x := range batch {
			m.remove(sp, x, m.store.record(x))
		}
		if sp.records == 0 || len(batch) < left {
			m.draining = m.draining[1:]
		}
		left -= len(batch)
		res.Dropped += len(batch)
	}
	return left
}

func (m *Machine) sweepDue(left int, res *Result) int {
	var raised []*space
	var r Record
	for ; left > 0; left-- {
		first, ok := m.store.dues.Min()
		if !ok || m.now < m.store.at(first).at() {
			break
		}
		m.store.read(&r, first)
		sp := m.spaces[r.Namespace]
		if r.Settled() && !r.Dropped && m.now < r.RetainedUntil && mutant != "notombstone" {
			m.take(sp, &r)
			if mutant != "sweepversion" {
				r.Version++
			}
			r.Dropped = true
			r.Response, r.HasResponse, r.Redacted = nil, false, nil
			m.put(sp, &r)
			res.Tombstoned++
			continue
		}
		if sp.horizon == 0 {
			raised = append(raised, sp)
		}
		m.raiseHorizon(sp, &r)
		m.remove(sp, first, &r)
		res.Dropped++
	}
	for _, sp := range raised {
		m.keepHorizon(sp)
	}
	return left
}

func (m *Machine) sweepLapsed(left int, res *Result) {
	var batch []ref
	m.lapsing(func(sp *space, first ref) bool {
		m.store.lapses.Ascend(first, func(x ref) bool {
			b := m.store.at(x)
			if space, _, _ := b.id(); space != sp.number || m.now < b.lapse() || len(batch) == left {
				return false
			}
			batch = append(batch, x)
			return true
		})
		return len(batch) < left
	})
	for _, x := range batch {
		r := m.store.record(x)
		m.remove(m.spaces[r.Namespace], x, r)
	}
	res.Dropped += len(batch)
}

// remainingDue counts what the next sweep would find now.
func (m *Machine) remainingDue() int {
	n := rank(m.store.dues, func(x ref) bool { return m.store.at(x).at() <= m.now })
	for _, sp := range m.draining {
		n += int(sp.records)
	}
	m.lapsing(func(sp *space, _ ref) bool {
		n += m.store.countUntil(m.store.lapses, packed.lapse, sp.ns.Name, m.now)
		return true
	})
	return n
}
