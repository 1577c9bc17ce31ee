package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/cluster/peerpb"
	"github.com/onced/onced/fsm"
)

const (
	pingEvery   = time.Second
	pingSoon    = 50 * time.Millisecond // until this node is caught up and knows the time
	pingTimeout = 500 * time.Millisecond
)

// peers asks the other nodes how they are, about once a second: their wall
// clocks steer log time, the leader's index tells when this node has caught up,
// and /v1/cluster shows the rest.
type peers struct {
	node *Node

	mu    sync.Mutex
	heard map[string]heardPeer
	busy  map[string]bool
}

// heardPeer is the last answer of a node and when it came.
type heardPeer struct {
	pong   *peerpb.Pong
	at     time.Time
	missed bool // it has not answered the last ping
}

func newPeers(n *Node) *peers {
	return &peers{node: n, heard: map[string]heardPeer{}, busy: map[string]bool{}}
}

// run pings until the node closes.
func (p *peers) run(ctx context.Context) {
	var pings sync.WaitGroup
	defer pings.Wait()
	for {
		for _, s := range p.others() {
			if p.begin(string(s.ID)) {
				pings.Add(1)
				go func() {
					defer pings.Done()
					defer p.end(string(s.ID))
					p.ping(ctx, s)
				}()
			}
		}
		every := pingEvery
		if live, _ := p.node.clock.isLive(); !live || !p.node.caughtUp.Load() {
			every = pingSoon
		}
		if sleep(ctx, every) {
			return
		}
	}
}

func (p *peers) begin(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[id] {
		return false
	}
	p.busy[id] = true
	return true
}

func (p *peers) end(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, id)
}

// servers gives the members as raft has them.
func (n *Node) servers() []raft.Server {
	r := n.raft.Load()
	if r == nil {
		var all []raft.Server
		for _, m := range n.cfg.Members {
			all = append(all, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address)})
		}
		return all
	}
	f := r.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

func (p *peers) others() (o []raft.Server) {
	for _, s := range p.node.servers() {
		if string(s.ID) != p.node.cfg.NodeID {
			o = append(o, s)
		}
	}
	return o
}

// ping asks one node and notes what it says.
func (p *peers) ping(ctx context.Context, s raft.Server) (*peerpb.Pong, bool) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	sent := time.Now()
	resp, err := p.node.net.call(ctx, string(s.Address), &peerpb.Request{Body: &peerpb.Request_Ping{Ping: &peerpb.Ping{}}})
	pong := resp.GetPong()
	if err != nil || pong == nil || pong.NodeId != string(s.ID) {
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.missed(string(s.ID))
		}
		return nil, false
	}
	n := p.node
	n.clock.heardWall(pong.NodeId, fsm.Time(pong.WallUs), time.Since(sent))
	p.mu.Lock()
	p.heard[pong.NodeId] = heardPeer{pong: pong, at: time.Now()}
	p.mu.Unlock()
	if pong.LogTimeUs > 0 { // it leads, and decides
		n.clock.heardLeader(fsm.Time(pong.LogTimeUs))
		n.target.CompareAndSwap(0, pong.AppliedIndex)
		if n.fsm.index() >= n.target.Load() {
			n.caughtUp.Store(true)
		}
	}
	return pong, true
}

// missed notes that a node has not answered.
func (p *peers) missed(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.heard[id]; ok {
		h.missed = true
		p.heard[id] = h
	}
}

// last gives the latest answer of a node.
func (p *peers) last(id string) (heardPeer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.heard[id]
	return h, ok
}

// silent names the members that have not answered lately.
func (p *peers) silent() string {
	var ids []string
	all := 0
	for _, s := range p.node.servers() {
		all++
		if string(s.ID) == p.node.cfg.NodeID {
			continue
		}
		if h, ok := p.last(string(s.ID)); !ok || h.missed {
			ids = append(ids, string(s.ID))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d nodes do not answer: %s", len(ids), all, strings.Join(ids, ", "))
}

// pong tells another node how this one is.
func (n *Node) pong() *peerpb.Pong {
	p := &peerpb.Pong{
		NodeId: n.cfg.NodeID, WallUs: int64(fsm.TimeOf(n.cfg.Wall())), Role: n.role(),
		LeaderId: n.Leader(), Version: n.cfg.Version,
	}
	if r := n.raft.Load(); r != nil {
		p.Term = r.CurrentTerm()
	}
	n.fsm.read(func(m *fsm.Machine) {
		p.AppliedIndex, p.StateHash = m.Index(), m.StateHash()
		if n.leads() == nil {
			p.LogTimeUs = int64(n.clock.estimate(m.Now()))
		}
	})
	return p
}

func (n *Node) role() string {
	r := n.raft.Load()
	switch {
	case n.isHalted():
		return "halted"
	case r == nil:
		return "starting"
	}
	switch r.State() {
	case raft.Leader:
		return "leader"
	case raft.Candidate:
		return "candidate"
	case raft.Shutdown:
		return "stopping"
	}
	return "follower"
}
