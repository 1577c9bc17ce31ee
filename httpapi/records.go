package httpapi

import (
	"net/http"
	"strings"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// The pages of GET .../records.
const (
	usualPage    = 100
	largestPage  = 1000
	pageBytes    = 4 << 20 // of responses: a page ends early rather than grow beyond
	longestQuery = idem.MaxKeyLength
)

var viewStatuses = map[string]bool{
	"pending": true, statusUncertain: true, "committed": true, "failed": true,
	"released": true, "cancelled": true, statusExpired: true,
}

// serveRecord shows one record, with its attemptId and token: without
// configured credentials every caller is an admin (api.md).
func (c *call) serveRecord() *reply {
	o, err := c.freshness()
	if err != nil {
		return c.refuse(err)
	}
	var rec *fsm.Record
	var view recordView
	var missing *idem.Error
	index, at, err := c.read(o, func(m *fsm.Machine, now fsm.Time) {
		if _, missing = namespaceError(m, c.namespace); missing != nil {
			return
		}
		var ok bool
		if rec, ok = m.Record(c.namespace, c.key); !ok {
			missing = &idem.Error{Code: idem.CodeNotFound}
			return
		}
		view = machineView(m, rec, now, true)
	})
	if err != nil {
		return c.refuse(err)
	}
	if missing != nil {
		return c.readRefused(missing, index, at)
	}
	rep := &reply{
		status: http.StatusOK, outcome: "ok", body: &view, key: c.key,
		etag: rec.Version, index: index, at: at,
	}
	if rec.Settled() {
		rep.expires = rec.ExpiresAt
	}
	return rep
}

// serveRecords lists a page in key order, without secrets. The page may be
// short of its limit and still have a nextCursor.
func (c *call) serveRecords() *reply {
	o, err := c.freshness()
	if err != nil {
		return c.refuse(err)
	}
	limit, err := c.limitParam(usualPage, largestPage)
	if err != nil {
		return c.refuse(err)
	}
	list := fsm.ListOptions{Status: c.query["status"], Prefix: c.query["prefix"], After: c.query["cursor"], Limit: limit}
	if list.Status != "" && !viewStatuses[list.Status] {
		return c.refuse(invalid("status must be pending, uncertain, committed, failed, released, cancelled or expired"))
	}
	if _, given := c.query["status"]; given && list.Status == "" {
		return c.refuse(invalid("status is empty"))
	}
	if !keyPart(list.Prefix) {
		return c.refuse(invalid("prefix has more characters, or others, than a key has"))
	}
	if _, given := c.query["cursor"]; given && (list.After == "" || !keyPart(list.After)) {
		return c.refuse(invalid("cursor is not one that nextCursor gave"))
	}
	page := &recordPage{}
	var missing *idem.Error
	index, at, err := c.read(o, func(m *fsm.Machine, now fsm.Time) {
		if _, missing = namespaceError(m, c.namespace); missing != nil {
			return
		}
		records, next := m.Records(c.namespace, list, now)
		page.next = next
		size := 0
		for i, r := range records {
			page.records = append(page.records, machineView(m, r, now, false))
			if size += len(r.Response); size > pageBytes && i < len(records)-1 {
				page.next = r.Key
				break
			}
		}
	})
	if err != nil {
		return c.refuse(err)
	}
	if missing != nil {
		return c.readRefused(missing, index, at)
	}
	return &reply{status: http.StatusOK, outcome: "ok", body: page, index: index, at: at}
}

// readRefused answers a read that found nothing: as of when, all the same.
func (c *call) readRefused(err *idem.Error, index uint64, at fsm.Time) *reply {
	rep := c.refuse(err)
	rep.index, rep.at = index, at
	return rep
}

// keyPart tells whether s could be the beginning of a key, or none.
func keyPart(s string) bool {
	return len(s) <= longestQuery && strings.TrimLeft(s, keyCharacters) == ""
}

const keyCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
