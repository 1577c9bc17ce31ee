package httpapi

import (
	"fmt"
	"net/http"
	rtmetrics "runtime/metrics"

	"github.com/onced/onced/fsm"
)

// namespaceStats counts the records of a namespace by status.
type namespaceStats struct {
	Pending   int64 `json:"pending"`
	Uncertain int64 `json:"uncertain"`
	Committed int64 `json:"committed"`
	Failed    int64 `json:"failed"`
	Released  int64 `json:"released"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
	Bytes     int64 `json:"bytes"`
}

// stats is this node's view of itself.
type stats struct {
	Namespaces    map[string]namespaceStats `json:"namespaces"`
	AppliedIndex  uint64                    `json:"appliedIndex"`
	StateHash     string                    `json:"stateHash"`
	HeapBytes     uint64                    `json:"heapBytes"`
	LogBytes      int64                     `json:"logBytes"`
	SnapshotBytes int64                     `json:"snapshotBytes"`
}

// serveStats counts this node's own state: what it has applied, however far
// that is behind.
func (c *call) serveStats() *reply {
	body := &stats{Namespaces: map[string]namespaceStats{}, HeapBytes: heapBytes()}
	index, at, err := c.read(fsm.ReadOptions{}, func(m *fsm.Machine, now fsm.Time) {
		for name, s := range m.Stats(now) {
			body.Namespaces[name] = namespaceStats{
				Pending: s.Pending, Uncertain: s.Uncertain, Committed: s.Committed, Failed: s.Failed,
				Released: s.Released, Cancelled: s.Cancelled, Expired: s.Expired, Bytes: s.Bytes,
			}
		}
		body.AppliedIndex = m.Index()
		body.StateHash = fmt.Sprintf("%016x", m.StateHash())
	})
	if err != nil {
		return c.refuse(err)
	}
	body.LogBytes, body.SnapshotBytes = c.srv.node.Sizes()
	return &reply{status: http.StatusOK, outcome: "ok", body: body, index: index, at: at}
}

// heapBytes reads the bytes of live and unswept heap objects without stopping
// the world.
func heapBytes() uint64 {
	s := []rtmetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	rtmetrics.Read(s)
	if s[0].Value.Kind() != rtmetrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
