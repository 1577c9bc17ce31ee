package fsm

import "time"

// restoreStep is how far tokens are moved ahead of log time at a restore.
const restoreStep = time.Hour

// FenceRestore makes a machine that was read from a backup safe to go on with
// at now, the log time that the cluster had got to: log time does not go back,
// tokens begin an hour ahead of it, above all that were given out since the
// backup, and every horizon rises to it, so that keys which carry their birth
// and may have run since are expired (semantics.md section 1). The caller
// applies it once, before the restored state is given to the nodes.
func (m *Machine) FenceRestore(now Time) {
	m.now = max(m.now, min(now, maxTime))
	m.lastToken = max(m.lastToken, uint64(m.now.Add(restoreStep)))
	m.names.Copy().Scan(func(ns *Namespace) bool {
		if !ns.Retired && ns.Horizon < m.now {
			n := *ns
			n.Horizon = m.now
			m.putNamespace(&n)
		}
		return true
	})
}
