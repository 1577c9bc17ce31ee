package fsm

import "github.com/onced/onced/fsm/fsmpb"

// Audit gives at most limit entries of the audit trail after sequence after.
func (m *Machine) Audit(after uint64, limit int) []*fsmpb.AuditEntry { return nil }
