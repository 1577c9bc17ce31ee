package httpapi

import (
	"context"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// Node is what the edge needs of a node of the cluster. It is declared here so
// that the edge knows nothing of the agreement behind it.
type Node interface {
	// ID is the node's own id.
	ID() string
	// Leader is the id of the leader as far as this node knows, "" when it
	// knows none.
	Leader() string
	// Decide has the commands decided as one list, in order, within the
	// deadline of ctx. wait, for a list of one reserve only, parks a duplicate
	// for so long. A *idem.Error with CodeUnavailable (Applied says what is
	// known) or CodeOverloaded tells that there is no decision.
	Decide(ctx context.Context, cmds []*fsm.Command, wait time.Duration) (*fsm.Decision, error)
	// Read runs f on the machine under its read lock, once the state is as
	// fresh as o asks for; now is the log time to judge derived states by. f
	// must not keep the machine, may keep records and namespaces. Errors are
	// *idem.Error as those of Decide.
	Read(ctx context.Context, o fsm.ReadOptions, f func(m *fsm.Machine, now fsm.Time)) (index uint64, at fsm.Time, err error)
	// Ready gives every readiness check, in order; the node is ready when all
	// are OK.
	Ready() []idem.Check
	// Status tells of the cluster as this node sees it, within the deadline
	// of ctx.
	Status(ctx context.Context) idem.ClusterStatus
	// Sizes gives the bytes that the log and the snapshots take on disk.
	Sizes() (logBytes, snapshotBytes int64)
}
