package fsm

// ticksKept is how many ticks back a check may reach.
const ticksKept = 64

// tick is the state hash after the entry at index. Ticks are not part of the
// state that is hashed: a restored machine remembers one only.
type tick struct{ index, hash uint64 }

type divergence struct{ index, ours, theirs uint64 }

// tick compares the proposer's state hash at an earlier tick with our own.
// Each replica checks for itself: the answer is the same on all.
func (m *Machine) tick(c *Command) Result {
	if c.CheckIndex != 0 && m.diverged == nil {
		for _, t := range m.ticks {
			if t.index == c.CheckIndex && t.hash != c.CheckHash {
				m.diverged = &divergence{t.index, t.hash, c.CheckHash}
			}
		}
	}
	return Result{Outcome: OutcomeDone}
}

// recordTick remembers the state after the entry that is being applied.
func (m *Machine) recordTick() {
	if len(m.ticks) == ticksKept {
		copy(m.ticks, m.ticks[1:])
		m.ticks = m.ticks[:ticksKept-1]
	}
	m.ticks = append(m.ticks, tick{m.index, m.StateHash()})
}

// LastTick is the index of the last tick and the state hash after it: what the
// next tick's check carries. 0, 0 before the first.
func (m *Machine) LastTick() (index, hash uint64) {
	if len(m.ticks) == 0 {
		return 0, 0
	}
	t := m.ticks[len(m.ticks)-1]
	return t.index, t.hash
}

// Diverged tells that a tick carried another state hash for an index than this
// machine had there: the replicas are no longer one state, and the node must
// halt. Once true it stays so.
func (m *Machine) Diverged() (index, ours, theirs uint64, ok bool) {
	if m.diverged == nil {
		return 0, 0, 0, false
	}
	return m.diverged.index, m.diverged.ours, m.diverged.theirs, true
}
