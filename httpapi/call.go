package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// call is one request on its way: what is known of it so far, for the answer,
// the log and the metrics.
type call struct {
	srv *Server
	w   http.ResponseWriter
	r   *http.Request

	query       map[string]string // query parameters, each known and given once
	operation   string            // name of the route and method, a metrics label
	namespace   string            // from the path, checked
	key         string            // checked
	correlation string
	timeout     time.Duration // of the decision, wait aside
	redact      *bool         // the namespace's, once looked up

	lines   lines
	slab    []fsm.Command // the commands of a batch, those not given out yet
	started time.Time
	status  int
	outcome string // outcome or code, a metrics label
	sent    bool
}

// reply is an answer before it is written.
type reply struct {
	status  int
	outcome string // outcome or code
	body    any    // JSON unless it is text; nil: none
	problem bool   // body is application/problem+json

	key        string // Idempotency-Key
	replayed   string // Idempotent-Replayed: true, false or ""
	expires    fsm.Time
	etag       uint64 // 0: none
	index      uint64
	at         fsm.Time
	retryAfter time.Duration
	allow      string
}

// text is a body that goes out as plain text.
type text string

// context gives the context of a decision: the caller's hang-up ends it unless
// keep is set. A settlement is kept: once it is here the outcome should be
// recorded, whether or not its sender still listens (B48).
func (c *call) context(wait time.Duration, keep bool) *deadline {
	ctx := c.r.Context()
	if keep {
		ctx = context.WithoutCancel(ctx)
	}
	return newDeadline(ctx, time.Now().Add(c.timeout+wait))
}

// newCommand gives an empty command.
func (c *call) newCommand() *fsm.Command {
	if len(c.slab) == 0 {
		return new(fsm.Command)
	}
	cmd := &c.slab[0]
	c.slab = c.slab[1:]
	return cmd
}

// read runs f on the machine as fresh as o asks, within the call's deadline.
func (c *call) read(o fsm.ReadOptions, f func(m *fsm.Machine, now fsm.Time)) (uint64, fsm.Time, *idem.Error) {
	ctx := c.context(0, false)
	defer ctx.end()
	index, at, err := c.srv.node.Read(ctx, o, f)
	if err != nil {
		return 0, 0, c.asError(err)
	}
	return index, at, nil
}

// namespaceError tells why a call for ns can have no answer, nil when it can.
func namespaceError(m *fsm.Machine, name string) (*fsm.Namespace, *idem.Error) {
	ns, ok := m.Namespace(name)
	switch {
	case !ok:
		return nil, &idem.Error{Code: idem.CodeNamespaceNotFound}
	case ns.Retired:
		return nil, &idem.Error{Code: idem.CodeNamespaceRetired}
	}
	return ns, nil
}
