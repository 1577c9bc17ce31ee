package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/onced/onced/cluster/peerpb"
)

// askAll is one round of the first start (R34, R35): it asks every other member
// who it is. ready means that this node may bootstrap: all of them have the same
// list, and each either has not started, or knows this very instance, as it does
// when this node was stopped between the others' bootstrap and its own. Then
// their instances are in the identity, durably. waiting tells in words what is
// missing. err is a *HaltError with exit code 78 when waiting will not help.
//
// After its first start a node asks nobody: a quorum is enough.
func (n *network) askAll(ctx context.Context, members []Member) (ready bool, waiting []string, err error) {
	self := n.id.get()
	type answer struct {
		instance string
		waiting  string
		fatal    string
	}
	answers := make([]answer, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		if m.ID == self.NodeID {
			answers[i].instance = self.Instance
			continue
		}
		wg.Go(func() {
			reply, err := n.hello(ctx, m.Address)
			if err != nil {
				answers[i].waiting = m.ID + " does not answer: " + err.Error()
				return
			}
			switch r := judgeFirstStart(self, m, reply); {
			case r == nil:
				answers[i].instance = reply.Instance
			case r.fatal:
				answers[i].fatal = r.sentence
			default:
				answers[i].waiting = m.ID + ": " + r.sentence
			}
		})
	}
	wg.Wait()
	instances := map[string]string{}
	for i, a := range answers {
		if a.fatal != "" {
			return false, nil, &HaltError{ExitRefused, errors.New(a.fatal)}
		}
		if a.waiting != "" {
			waiting = append(waiting, a.waiting)
		}
		instances[members[i].ID] = a.instance
	}
	if len(waiting) > 0 {
		return false, waiting, nil
	}
	if err := n.id.update(func(id *identity) { id.Instances = instances }); err != nil {
		return false, nil, err
	}
	return true, nil, nil
}

// judgeFirstStart judges the reply of member m to a node that has not started;
// nil: as far as m goes, it may. The other side judges too, but a start must not
// hang on what another version thinks.
func judgeFirstStart(self identity, m Member, r *peerpb.HelloReply) *helloRefusal {
	if why := checkReply(self, m.ID, r); why != nil {
		return why
	}
	if r.Initialised {
		if r.KnownInstance == "" {
			return refuseForGood("%s is in a cluster that does not know %s", m.ID, self.NodeID)
		}
		if r.KnownInstance != self.Instance {
			return otherData(self.NodeID)
		}
	}
	if !slices.ContainsFunc(r.Members, func(p *peerpb.Member) bool { return p.GetId() == self.NodeID }) {
		return refuseForGood("the cluster list of %s does not name %s", m.ID, self.NodeID)
	}
	return checkLists(self, m.ID, r.Members)
}

// checkState tells whether a node with this identity may start on what its
// storage holds. raft.db opens as new when it is empty: on a node that has
// started before, that is lost data, not a first start (raft-traps 0.9).
func checkState(id identity, hasState bool) error {
	if id.Initialised && !hasState && mutant != "nomarker" {
		return emptied(id.NodeID)
	}
	return nil
}

func emptied(nodeID string) error {
	return refusef("%s has started before, but its %s is empty. Put the old disk back, or remove %[1]s and add the machine under a new id.", nodeID, raftFile)
}
