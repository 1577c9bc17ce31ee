package fsm

// Replay answers a reserve from memory alone: only with an outcome that can
// never be superseded (semantics.md section 7). It never says no: false means
// that the log must decide. now is the caller's estimate of log time, never
// ahead of it.
func (m *Machine) Replay(c *Command, now Time) (Result, bool) { return Result{}, false }

// ReplaySequence is the number of the last replay batch taken from a node.
func (m *Machine) ReplaySequence(nodeID string) uint64 { return 0 }
