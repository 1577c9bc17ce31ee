package fsm

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// nodeState is what is known of a node. It is never changed, only replaced.
type nodeState struct {
	id             string
	node           *fsmpb.Node // no more than an id until the node has said something
	replaySequence uint64
	hash           uint64
}

func (m *Machine) findNode(id string) (int, bool) {
	return slices.BinarySearchFunc(m.nodes, id, func(n *nodeState, id string) int {
		return strings.Compare(n.id, id)
	})
}

// putNode replaces the list, which views share.
func (m *Machine) putNode(n *nodeState) {
	m.scratch = appendNode(m.scratch[:0], n)
	n.hash = hashOf(m.scratch)
	m.sum += n.hash
	i, ok := m.findNode(n.id)
	list := slices.Clone(m.nodes)
	if ok {
		m.sum -= list[i].hash
		list[i] = n
	} else {
		list = slices.Insert(list, i, n)
	}
	m.nodes = list
}

// nodeInfo keeps what a node says of itself.
func (m *Machine) nodeInfo(c *Command) Result {
	if c.Node.GetId() == "" {
		return refuse(idem.CodeInvalidRequest, "node: has no id")
	}
	n := &nodeState{id: c.Node.Id, node: c.Node}
	if i, ok := m.findNode(n.id); ok {
		old := m.nodes[i]
		if proto.Equal(old.node, c.Node) {
			return Result{Outcome: OutcomeDone}
		}
		n.replaySequence = old.replaySequence
	}
	m.putNode(n)
	return Result{Outcome: OutcomeDone, Changed: true}
}

// Nodes gives what the nodes said of themselves, by id. One that has reported
// replays and not itself has only its id. The messages are
// shared and must not be changed.
func (m *Machine) Nodes() []*fsmpb.Node {
	out := make([]*fsmpb.Node, 0, len(m.nodes))
	for _, n := range m.nodes {
		out = append(out, n.node)
	}
	return out
}
