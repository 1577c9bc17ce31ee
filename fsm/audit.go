package fsm

import "github.com/onced/onced/fsm/fsmpb"

// auditItem is an entry of the trail with its share of the state hash.
type auditItem struct {
	entry *fsmpb.AuditEntry
	hash  uint64
}

// trail keeps who did what, when and why, for the last AuditKept deeds.
func (m *Machine) trail(c *Command, action, detail string) {
	m.auditSeq++
	m.keepAudit(&fsmpb.AuditEntry{
		Sequence: m.auditSeq, TimeUs: int64(m.now), Index: m.index,
		Action: action, Namespace: c.Namespace, Key: c.Key,
		Actor: c.Actor, Reason: c.Reason, Detail: detail, CorrelationId: c.CorrelationId,
	})
	for m.audit.Len() > AuditKept {
		oldest, _ := m.audit.PopMin()
		m.sum -= oldest.hash
	}
}

func (m *Machine) keepAudit(e *fsmpb.AuditEntry) {
	m.scratch = appendAudit(m.scratch[:0], e)
	it := auditItem{e, hashOf(m.scratch)}
	m.sum += it.hash
	m.audit.Set(it)
}

// Audit gives at most limit entries of the audit trail after sequence after,
// oldest first. Sequences are without gaps; only the last AuditKept are kept,
// so a gap after the caller's last one shows what was lost. The entries are
// shared and must not be changed.
func (m *Machine) Audit(after uint64, limit int) []*fsmpb.AuditEntry {
	var out []*fsmpb.AuditEntry
	if after >= m.auditSeq {
		return nil
	}
	pivot := auditItem{entry: &fsmpb.AuditEntry{Sequence: after + 1}}
	m.audit.Ascend(pivot, func(it auditItem) bool {
		if len(out) >= limit {
			return false
		}
		out = append(out, it.entry)
		return true
	})
	return out
}
