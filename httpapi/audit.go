package httpapi

import (
	"net/http"
	"strconv"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// auditEntry tells who freed, resolved, cancelled or configured what.
type auditEntry struct {
	Sequence      uint64 `json:"sequence"`
	Time          string `json:"time"`
	Index         uint64 `json:"index"`
	Action        string `json:"action"`
	Namespace     string `json:"namespace,omitempty"`
	Key           string `json:"key,omitempty"`
	Actor         string `json:"actor,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Detail        string `json:"detail,omitempty"`
	CorrelationID string `json:"correlationId,omitempty"`
}

type auditPage struct {
	Entries    []auditEntry `json:"entries"`
	NextCursor string       `json:"nextCursor,omitempty"`
}

// serveAudit gives a page of the audit trail, oldest first. A cursor is the
// sequence of the last entry seen, so the trail can be followed.
func (c *call) serveAudit() *reply {
	o, err := c.freshness()
	if err != nil {
		return c.refuse(err)
	}
	limit, err := c.limitParam(usualPage, largestPage)
	if err != nil {
		return c.refuse(err)
	}
	var after uint64
	if s, ok := c.query["cursor"]; ok {
		n, fault := strconv.ParseUint(s, 10, 64)
		if fault != nil {
			return c.refuse(invalid("cursor is not one that nextCursor gave"))
		}
		after = n
	}
	var entries []*fsmpb.AuditEntry
	index, at, err := c.read(o, func(m *fsm.Machine, _ fsm.Time) { entries = m.Audit(after, limit+1) })
	if err != nil {
		return c.refuse(err)
	}
	page := &auditPage{Entries: make([]auditEntry, 0, min(len(entries), limit))}
	for i, e := range entries {
		if i == limit {
			page.NextCursor = strconv.FormatUint(entries[i-1].GetSequence(), 10)
			break
		}
		page.Entries = append(page.Entries, auditEntry{
			Sequence: e.GetSequence(), Time: stamp(fsm.Time(e.GetTimeUs())), Index: e.GetIndex(),
			Action: e.GetAction(), Namespace: e.GetNamespace(), Key: e.GetKey(), Actor: e.GetActor(),
			Reason: e.GetReason(), Detail: e.GetDetail(), CorrelationID: e.GetCorrelationId(),
		})
	}
	return &reply{status: http.StatusOK, outcome: "ok", body: page, index: index, at: at}
}
