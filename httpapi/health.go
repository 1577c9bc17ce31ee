package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/onced/onced/idem"
)

// health answers /healthz and /readyz.
type health struct {
	Status string       `json:"status"`
	Reason string       `json:"reason,omitempty"`
	Checks []idem.Check `json:"checks,omitempty"`
}

// serveHealth says that the process is alive. A lost quorum must not fail it:
// an orchestrator would kill healthy nodes.
func (c *call) serveHealth() *reply {
	return &reply{status: http.StatusOK, outcome: "ok", body: &health{Status: "ok"}}
}

// serveReady says whether this node can serve, and if not, why in words.
func (c *call) serveReady() *reply {
	body := &health{Status: "ready"}
	status := http.StatusOK
	checks := c.srv.node.Ready()
	var reasons []string
	for _, check := range checks {
		if !check.OK {
			reason := check.Name
			if check.Detail != "" {
				reason += ": " + check.Detail
			}
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
		body.Status, body.Reason = "not ready", strings.Join(reasons, "; ")
	}
	switch s, asked := c.query["verbose"]; {
	case asked && (s == "" || s == "true"):
		body.Checks = checks
	case asked && s != "false":
		return c.refuse(invalid("verbose must be true or false"))
	}
	rep := &reply{status: status, outcome: strings.ReplaceAll(body.Status, " ", "_"), body: body}
	if status == http.StatusServiceUnavailable {
		rep.retryAfter = time.Second
	}
	return rep
}
