package cluster

import (
	"context"
	"sync"
)

// fairQueue holds the proposals that wait for a batch. It takes from the
// namespaces in turn, and when it is full it refuses those that hold more than
// their share: a flood in one namespace does not keep the others out.
type fairQueue struct {
	most int // commands, over all namespaces

	mu    sync.Mutex
	lanes map[string]*queueLane
	turn  []*queueLane // those with something in them, next first
	held  int          // commands; a fence counts as one

	some chan struct{} // holds a value while there may be something
}

// queueLane is what waits of one namespace, oldest first.
type queueLane struct {
	namespace string
	waiting   []*proposal
	held      int
}

func newFairQueue(most int) *fairQueue {
	return &fairQueue{most: most, lanes: map[string]*queueLane{}, some: make(chan struct{}, 1)}
}

// weight is what a proposal counts for.
func (p *proposal) weight() int { return max(1, len(p.cmds)) }

// namespace is whose share a proposal counts against: that of its first command.
func (p *proposal) namespace() string {
	if len(p.cmds) == 0 {
		return ""
	}
	return p.cmds[0].Namespace
}

// push adds p, or tells that there is no room for it. Beyond most, a namespace
// may still add up to an even share of it, so that the whole never holds more
// than twice as much.
func (q *fairQueue) push(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	name, w := p.namespace(), p.weight()
	l := q.lanes[name]
	if q.held+w > q.most {
		have, lanes := 0, len(q.lanes)
		if l != nil {
			have = l.held
		} else {
			lanes++
		}
		if have+w > q.most/lanes || q.held+w > 2*q.most {
			return false
		}
	}
	if l == nil {
		l = &queueLane{namespace: name}
		q.lanes[name] = l
		q.turn = append(q.turn, l)
	}
	l.waiting = append(l.waiting, p)
	l.held += w
	q.held += w
	q.signal()
	return true
}

func (q *fairQueue) signal() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// pop takes the oldest proposal of the namespace whose turn it is; nil when the
// queue is empty.
func (q *fairQueue) pop() *proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turn) == 0 {
		return nil
	}
	l := q.turn[0]
	p := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.held -= p.weight()
	q.held -= p.weight()
	q.turn[0] = nil
	q.turn = q.turn[1:]
	if len(l.waiting) > 0 {
		q.turn = append(q.turn, l)
	} else {
		delete(q.lanes, l.namespace)
	}
	if len(q.turn) > 0 {
		q.signal()
	}
	return p
}

// wait takes a proposal, waiting for one; nil when ctx ends first.
func (q *fairQueue) wait(ctx context.Context) *proposal {
	for {
		if p := q.pop(); p != nil {
			return p
		}
		select {
		case <-q.some:
		case <-ctx.Done():
			return nil
		}
	}
}

// waiting gives how many commands wait.
func (q *fairQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}
