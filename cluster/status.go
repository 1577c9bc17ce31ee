package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/cluster/peerpb"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// Ready gives every check that this node must pass to serve, in order; it is
// ready when all are OK. A detail says in words what is missing.
func (n *Node) Ready() []idem.Check {
	check := func(name string, ok bool, no string) idem.Check {
		if ok {
			no = ""
		}
		return idem.Check{Name: name, OK: ok, Detail: no}
	}
	joined := n.raft.Load() != nil
	why, _ := n.starting.Load().(string)
	if why == "" {
		why = errStarting.Error()
	}
	noLeader := "no leader is known"
	if joined {
		if s := n.peers.silent(); s != "" {
			noLeader += ": " + s
		}
	}
	live, _ := n.clock.isLive()
	leads := !n.isLeader() || n.ready.Load()
	checks := []idem.Check{
		check("running", !n.isHalted() && !n.leaving.Load(), "the node has halted or is stopping"),
		check("joined", joined, why),
		check("leader", n.Leader() != "" && leads, noLeader),
		check("caughtUp", n.caughtUp.Load(), "this node has not yet applied what the leader had when it was first heard"),
		check("clock", live, "the leader's time has not been heard since the start"),
		check("announced", n.isAnnounced(), "this node's address is not in the log yet"),
	}
	if n.isDraining() {
		checks = slices.Insert(checks, 0, check("staying", false, "the node is about to stop: ask another"))
	}
	return checks
}

// Sizes gives the bytes of the log store and of the snapshots on disk.
func (n *Node) Sizes() (logBytes, snapshotBytes int64) { return n.store.sizes() }

// Status gives the cluster as this node sees it; it asks every other node.
func (n *Node) Status(ctx context.Context) idem.ClusterStatus {
	servers := n.servers()
	st := idem.ClusterStatus{Nodes: make([]idem.NodeStatus, len(servers))}
	known := map[string]*fsmpb.Node{}
	n.fsm.read(func(m *fsm.Machine) {
		st.ClusterID = m.ClusterID()
		for _, x := range m.Nodes() {
			known[x.Id] = x
		}
	})
	if r := n.raft.Load(); r != nil {
		st.Term = r.CurrentTerm()
	}
	if id := n.Leader(); id != "" {
		st.Leader = &id
	}
	pongs := make([]*peerpb.Pong, len(servers))
	var asked sync.WaitGroup
	for i, s := range servers {
		if string(s.ID) == n.cfg.NodeID {
			pongs[i] = n.pong()
			continue
		}
		asked.Add(1)
		go func() {
			defer asked.Done()
			pongs[i], _ = n.peers.ping(ctx, s)
		}()
	}
	asked.Wait()
	var newest uint64
	for i, p := range pongs {
		voter := servers[i].Suffrage == raft.Voter
		if voter {
			st.Quorum.Voters++
		}
		if p != nil {
			newest = max(newest, p.AppliedIndex)
			if voter && p.Role != "halted" {
				st.Quorum.Reachable++
			}
		}
	}
	st.Quorum.Needed = st.Quorum.Voters/2 + 1
	st.Quorum.CanLose = max(0, st.Quorum.Reachable-st.Quorum.Needed)
	for i, s := range servers {
		st.Nodes[i] = n.nodeStatus(s, pongs[i], known[string(s.ID)], newest)
	}
	return st
}

func (n *Node) nodeStatus(s raft.Server, p *peerpb.Pong, info *fsmpb.Node, newest uint64) idem.NodeStatus {
	id := string(s.ID)
	x := idem.NodeStatus{
		ID: id, PeerAddress: string(s.Address), HTTPAddress: info.GetHttpAddress(), Version: info.GetVersion(),
		Voter: s.Suffrage == raft.Voter, Role: "unreachable", LastContactMs: -1, Lag: -1,
	}
	if p == nil {
		if h, ok := n.peers.last(id); ok {
			x.LastContactMs = time.Since(h.at).Milliseconds()
			x.AppliedIndex = h.pong.AppliedIndex
		}
		return x
	}
	x.Role, x.AppliedIndex, x.Version = p.Role, p.AppliedIndex, p.Version
	x.Lag = int64(newest - p.AppliedIndex)
	x.StateHash = fmt.Sprintf("%016x", p.StateHash)
	x.LastContactMs = 0
	if off, ok := n.clock.offset(id); ok && id != n.cfg.NodeID {
		x.ClockOffsetMs = off.Milliseconds()
	}
	return x
}

// info is what this node says of itself through the log.
func (n *Node) info() *fsmpb.Node {
	return &fsmpb.Node{
		Id: n.cfg.NodeID, Instance: n.id.get().Instance,
		HttpAddress: n.cfg.HTTPAdvertise, PeerAddress: n.cfg.PeerAdvertise, Version: n.cfg.Version,
	}
}

// isAnnounced tells whether the log knows this node as it is.
func (n *Node) isAnnounced() (ok bool) {
	want := n.info()
	n.fsm.read(func(m *fsm.Machine) {
		for _, x := range m.Nodes() {
			if x.Id == want.Id {
				ok = x.Instance == want.Instance && x.HttpAddress == want.HttpAddress &&
					x.PeerAddress == want.PeerAddress && x.Version == want.Version
			}
		}
	})
	return ok
}

// announce gets this node's id, instance, addresses and version into the log.
func (n *Node) announce(ctx context.Context) {
	for {
		every := time.Second
		if !n.isAnnounced() {
			every = 20 * time.Millisecond
			if n.caughtUp.Load() {
				call, cancel := context.WithTimeout(ctx, defaultBudget)
				_, err := n.decide(call, []*fsm.Command{{Op: fsmpb.Op_OP_NODE_INFO, Node: n.info()}})
				cancel()
				if err != nil {
					n.log.Warn("this node could not be announced", "error", err)
				}
			}
		}
		if sleep(ctx, every) {
			return
		}
	}
}

// learn takes over what the log says of the cluster and its nodes: the cluster
// id and the instances that hellos are held against. The apply loop only tells
// it to look.
func (n *Node) learn(ctx context.Context) {
	for {
		select {
		case <-n.learned:
		case <-ctx.Done():
			return
		}
		var clusterID string
		var nodes []*fsmpb.Node
		n.fsm.read(func(m *fsm.Machine) { clusterID, nodes = m.ClusterID(), m.Nodes() })
		if clusterID == "" {
			continue
		}
		if have := n.id.get().ClusterID; have != "" && have != clusterID {
			n.halt(&HaltError{ExitRefused, fmt.Errorf("the data of %s belongs to cluster %s, its identity.json to %s: put the right disk back", n.cfg.NodeID, clusterID, have)})
			return
		}
		err := n.id.update(func(id *identity) {
			id.ClusterID = clusterID
			for _, x := range nodes {
				if x.Id != n.cfg.NodeID {
					id.Instances[x.Id] = x.Instance
				}
			}
		})
		if err != nil {
			n.log.Error("identity.json cannot be written", "error", err)
		}
	}
}
