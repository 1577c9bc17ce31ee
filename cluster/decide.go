package cluster

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// defaultBudget bounds a call whose context has no deadline.
const defaultBudget = 5 * time.Second

// Decide has the commands decided as one list, in order, and gives a result for
// each. A list of duplicates that are all settled is answered from this node's
// memory. Otherwise the log decides, and everything that surely did nothing or
// may have been lost is sent again, with the same attemptId or token, until ctx
// ends: the machine gives a repeat the same answer.
//
// wait parks the duplicate of a single reserve on this node until its first
// attempt settles, is released, or its lease is over, at most that long; ctx
// must leave room for it.
//
// The error is an *idem.Error: CodeUnavailable, with what is known of the fate,
// or CodeOverloaded. In a list of several, those that were not decided have a
// Result with CodeUnavailable instead.
func (n *Node) Decide(ctx context.Context, cmds []*fsm.Command, wait time.Duration) (*fsm.Decision, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget+wait)
		defer cancel()
	}
	d := n.localAnswer(cmds)
	var err error
	switch {
	case d != nil:
		n.local.Add(uint64(len(cmds)))
	case wait > 0 && len(cmds) == 1 && cmds[0].Op == fsmpb.Op_OP_RESERVE:
		d, err = n.decideWaiting(ctx, cmds[0], wait)
	default:
		d, err = n.decideAll(ctx, cmds)
	}
	if err != nil {
		return nil, err
	}
	n.count.served(d)
	return d, nil
}

// localAnswer answers a list from this node's memory, when every command of it
// can be: memory may say yes, never no (semantics.md section 7). A node that has
// not heard log time since its start says nothing: it cannot tell what has
// expired.
func (n *Node) localAnswer(cmds []*fsm.Command) (d *fsm.Decision) {
	if len(cmds) == 0 || n.isHalted() {
		return nil
	}
	for _, c := range cmds {
		if c.Op != fsmpb.Op_OP_RESERVE {
			return nil
		}
	}
	n.fsm.read(func(m *fsm.Machine) {
		now, sure := n.clock.sure(m.Now())
		if !sure {
			return
		}
		var results []fsm.Result
		for _, c := range cmds {
			r, ok := m.Replay(c, now)
			if !ok {
				return
			}
			if results == nil {
				results = make([]fsm.Result, 0, len(cmds))
			}
			results = append(results, r)
		}
		d = &fsm.Decision{Index: m.Index(), Time: now, Results: results, Local: true}
	})
	return d
}

// decideAll has a list decided by the log, in as few entries as their size
// allows.
func (n *Node) decideAll(ctx context.Context, cmds []*fsm.Command) (*fsm.Decision, error) {
	if err := n.setDeadline(ctx, cmds); err != nil {
		return nil, unavailable(refused, err)
	}
	all := &fsm.Decision{}
	for len(cmds) > 0 {
		part := cmds[:entryPrefix(cmds)]
		d, err := n.decide(ctx, part)
		switch whole := len(all.Results) == 0 && len(part) == len(cmds); {
		case whole && err != nil: // not a nil *idem.Error in an error
			return nil, err
		case whole:
			return d, nil
		case err != nil:
			// Some are decided: each of the others tells for itself.
			for i := range cmds {
				r := fsm.Result{Code: err.Code, Detail: err.Detail}
				r.Unknown = i < len(part) && err.Applied == idem.AppliedUnknown
				all.Results = append(all.Results, r)
			}
			return all, nil
		}
		all.Index, all.Time = d.Index, d.Time
		all.Results = append(all.Results, d.Results...)
		cmds = cmds[len(part):]
	}
	return all, nil
}

// entryPrefix gives how many of the commands fit into one entry: all, or as
// many as its bytes allow, at least one.
func entryPrefix(cmds []*fsm.Command) int {
	if len(cmds) == 1 {
		return 1
	}
	bytes := 0
	for i, c := range cmds {
		bytes += proto.Size(c) + 4
		if bytes > maxEntryBytes && i > 0 {
			return i
		}
	}
	return len(cmds)
}

// setDeadline gives commands without a token the deadline of their call in log
// time: applied after it, a late copy does nothing.
func (n *Node) setDeadline(ctx context.Context, cmds []*fsm.Command) error {
	for _, c := range cmds {
		if !fsm.Tokenless(c) || c.NotAfterUs != 0 {
			continue
		}
		if live, heard := n.clock.isLive(); !live {
			select {
			case <-heard:
			case <-ctx.Done():
				return n.whyNot()
			}
		}
		deadline, _ := ctx.Deadline()
		c.NotAfterUs = int64(n.clock.estimate(n.fsm.now()).Add(time.Until(deadline)))
	}
	return nil
}

// whyNot tells in words why nothing can be decided now.
func (n *Node) whyNot() error {
	for _, c := range n.Ready() {
		if !c.OK {
			return errors.New(c.Detail)
		}
	}
	return errNoLeader
}

// decide gets one entry's worth of commands decided, trying again for as long
// as ctx lets it.
func (n *Node) decide(ctx context.Context, cmds []*fsm.Command) (*fsm.Decision, *idem.Error) {
	lost := false // an earlier try may have been applied
	var cause error
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		_, _, changed := n.leader.current()
		o := n.try(ctx, cmds)
		switch o.fate {
		case applied:
			if lost {
				for i := range o.decision.Results {
					r := &o.decision.Results[i]
					r.Unknown = r.Code == idem.CodeUnavailable
				}
			}
			return o.decision, nil
		case unknown:
			lost = true
			if mutant == "newattempt" {
				for _, c := range cmds {
					c.AttemptId = randomHex(n.cfg.Rand, 16)
				}
			}
		}
		if ctx.Err() == nil || cause == nil {
			cause = o.err
		}
		if errors.Is(o.err, errOverloaded) && !lost {
			return nil, overloaded()
		}
		if !n.pause(ctx, pause, changed) {
			break
		}
	}
	f := refused
	if lost {
		f = unknown
	}
	if errors.Is(cause, errNoLeader) || errors.Is(cause, errStarting) {
		cause = n.whyNot()
	}
	return nil, unavailable(f, cause)
}

// pause waits before another try: until the leader changes or d is over. It
// tells whether another try makes sense.
func (n *Node) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
		return false
	case <-n.ctx.Done():
		return false
	case <-n.halted:
		return false
	}
	return true
}

// try proposes once: here when this node leads, else through the leader. With
// no commands it gets an index to read behind.
func (n *Node) try(ctx context.Context, cmds []*fsm.Command) outcome {
	if n.isLeader() {
		return n.batch.submit(ctx, newProposal(ctx, cmds))
	}
	return n.relays.submit(ctx, newProposal(ctx, cmds))
}
