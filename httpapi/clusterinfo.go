package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/onced/onced/idem"
)

// serveCluster tells of nodes, leader and quorum as this node sees them.
func (c *call) serveCluster() *reply {
	status := c.clusterStatus()
	return &reply{status: http.StatusOK, outcome: "ok", body: &status}
}

func (c *call) clusterStatus() idem.ClusterStatus {
	ctx := c.context(0, false)
	defer ctx.end()
	status := c.srv.node.Status(ctx)
	if status.Nodes == nil {
		status.Nodes = []idem.NodeStatus{}
	}
	return status
}

// serveRoot tells a person where they are; the console will take its place.
func (c *call) serveRoot() *reply {
	status := c.clusterStatus()
	var b strings.Builder
	fmt.Fprintf(&b, "onced %s\nnode %s\n", c.srv.version, c.srv.node.ID())
	leader := "unknown"
	if status.Leader != nil {
		leader = *status.Leader
	}
	fmt.Fprintf(&b, "leader %s, %d of %d voters reachable\n", leader, status.Quorum.Reachable, status.Quorum.Voters)
	for _, n := range status.Nodes {
		fmt.Fprintf(&b, "%s %s %s (peers %s)\n", n.ID, n.Role, n.HTTPAddress, n.PeerAddress)
	}
	b.WriteString("API /openapi.json, health /healthz /readyz?verbose, figures /metrics /v1/stats\n")
	return &reply{status: http.StatusOK, outcome: "ok", body: text(b.String())}
}
