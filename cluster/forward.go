package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onced/onced/cluster/peerpb"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

var errLeaderChanged = errors.New("the leader changed before it answered")

// forward sends a request to the leader. What travels is the command, not the
// HTTP request, so that a forward sent twice cannot become two decisions. It
// does not outlast the leadership of the node it asks.
func (n *Node) forward(ctx context.Context, req *peerpb.Request) outcome {
	_, addr, changed := n.leader.current()
	if n.raft.Load() == nil {
		return outcome{fate: refused, err: errStarting}
	}
	if addr == "" {
		return outcome{fate: refused, err: errNoLeader}
	}
	if addr == n.cfg.PeerAdvertise {
		return outcome{fate: refused, err: errNotReady} // raft is between follower and leader
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-changed:
			cancel(errLeaderChanged)
		case <-n.ctx.Done():
			cancel(errClosing)
		case <-stop:
		}
	}()
	n.forwarded.Add(1)
	resp, err := n.net.call(ctx, addr, req)
	if err != nil {
		f := unknown
		if errors.Is(err, errNotSent) {
			f = refused
		}
		return outcome{fate: f, err: fmt.Errorf("leader at %s: %w", addr, err)}
	}
	return n.refill(ctx, outcomeOf(resp), resp.GetDecision().GetStripped())
}

// outcomeOf reads a leader's answer.
func outcomeOf(resp *peerpb.Response) outcome {
	switch b := resp.Body.(type) {
	case *peerpb.Response_Decision:
		d := &fsm.Decision{Index: b.Decision.Index, Time: fsm.Time(b.Decision.TimeUs)}
		d.Results = make([]fsm.Result, len(b.Decision.Results))
		for i, r := range b.Decision.Results {
			d.Results[i] = fsm.ResultFromProto(r)
		}
		return outcome{fate: applied, decision: d}
	case *peerpb.Response_Refusal:
		err := error(errNotLeader)
		switch b.Refusal.Reason {
		case peerpb.Refusal_OVERLOADED:
			err = errOverloaded
		case peerpb.Refusal_NOT_READY:
			err = errNotReady
		}
		return outcome{fate: refused, err: err}
	case *peerpb.Response_Unknown:
		return outcome{fate: unknown, err: errors.New(b.Unknown.Detail)}
	}
	return outcome{fate: unknown, err: errors.New("the leader's answer is of an unknown kind")}
}

// servePeer answers another node.
func (n *Node) servePeer(ctx context.Context, _ string, req *peerpb.Request) *peerpb.Response {
	switch b := req.Body.(type) {
	case *peerpb.Request_Propose:
		return n.serveProposal(ctx, b.Propose.Commands, b.Propose.Fence, b.Propose.BudgetUs)
	case *peerpb.Request_Fence:
		return n.serveProposal(ctx, nil, true, b.Fence.BudgetUs)
	case *peerpb.Request_Ping:
		return &peerpb.Response{Body: &peerpb.Response_Pong{Pong: n.pong()}}
	}
	return refusalOf(peerpb.Refusal_REASON_UNSPECIFIED, "unknown request")
}

// serveProposal decides for another node: one hop only, so a node that does not
// lead refuses. Content is checked again: another node's version may differ.
// This node's memory answers duplicates, but never a message that readers came
// with: a deposed leader's memory is behind, and only an entry shows it.
func (n *Node) serveProposal(ctx context.Context, cmds []*fsm.Command, fence bool, budgetUs int64) *peerpb.Response {
	for _, c := range cmds {
		if c.GetOp() <= fsmpb.Op_OP_UNSPECIFIED || c.GetOp() > fsmpb.Op_OP_INIT {
			return refusalOf(peerpb.Refusal_REASON_UNSPECIFIED, fmt.Sprintf("unknown command %d", c.GetOp()))
		}
	}
	if d := n.localAnswer(cmds); d != nil && !fence {
		n.local.Add(uint64(len(cmds)))
		return &peerpb.Response{Body: &peerpb.Response_Decision{Decision: decisionProto(d)}}
	}
	budget := min(max(fsm.Duration(budgetUs), time.Millisecond), 2*time.Minute)
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	n.untilReady(ctx)
	o := n.batch.submit(ctx, newProposal(ctx, cmds))
	switch o.fate {
	case applied:
		return &peerpb.Response{Body: &peerpb.Response_Decision{Decision: decisionProto(o.decision)}}
	case unknown:
		return unknownOf(o.err.Error())
	}
	reason := peerpb.Refusal_NOT_LEADER
	switch {
	case errors.Is(o.err, errOverloaded):
		reason = peerpb.Refusal_OVERLOADED
	case errors.Is(o.err, errNotReady):
		reason = peerpb.Refusal_NOT_READY
	}
	return refusalOf(reason, o.err.Error())
}

// maxDecisionBytes is how large an answer between nodes grows before responses
// are left out of it.
const maxDecisionBytes = 4 << 20

// decisionProto puts a decision into a message. Beyond maxDecisionBytes the
// responses are left out: a list of replays can be larger than any message.
func decisionProto(d *fsm.Decision) *peerpb.Decision {
	p := &peerpb.Decision{Index: d.Index, TimeUs: int64(d.Time)}
	bytes := 0
	for i := range d.Results {
		r := d.Results[i].Proto()
		if rec := r.GetRecord(); rec != nil {
			if bytes += len(rec.Response); bytes > maxDecisionBytes && len(rec.Response) > 0 {
				rec.Response = nil
				p.Stripped = append(p.Stripped, uint32(i))
			}
		}
		p.Results = append(p.Results, r)
	}
	return p
}

// refill puts back the responses that were left out of a leader's answer, from
// this node's own records. When a record is no longer as it was decided the
// outcome is unknown: the call is repeated then.
func (n *Node) refill(ctx context.Context, o outcome, stripped []uint32) outcome {
	lost := outcome{fate: unknown, err: errors.New("the leader's answer was too large to send whole")}
	if len(stripped) == 0 {
		return o
	}
	if !n.applied(ctx, o.decision.Index) {
		return lost
	}
	whole := true
	n.fsm.read(func(m *fsm.Machine) {
		for _, i := range stripped {
			if int(i) >= len(o.decision.Results) || o.decision.Results[i].Record == nil {
				whole = false
				return
			}
			r := &o.decision.Results[i]
			now, ok := m.Record(r.Record.Namespace, r.Record.Key)
			if !ok || now.Token != r.Record.Token || now.OutcomeDigest != r.Record.OutcomeDigest || len(now.Response) == 0 {
				whole = false
				return
			}
			filled := *r.Record
			filled.Response = now.Response
			r.Record = &filled
		}
	})
	if !whole {
		return lost
	}
	return o
}
