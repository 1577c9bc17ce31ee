package cluster

import (
	"context"
	"slices"
	"sync"

	"github.com/onced/onced/fsm/fsmpb"
)

const (
	// maxSameKey bounds the reserves of one key in one batch with others, and
	// maxSameAlone those in a batch of their own.
	maxSameKey   = 8
	maxSameAlone = 32
	// sameKeyShare is the part of the queue, one in so many, that the reserves
	// of one key may fill.
	sameKeyShare = 4
)

// fairQueue holds the proposals that wait for a batch. It takes from the
// namespaces in turn, and when it is full it refuses those that hold more than
// their share: a flood in one namespace does not keep the others out.
//
// Nor does a storm on one key. A batch takes a few of its reserves: were all
// answered at once, all would ask again at once, and everybody else's next call
// would be behind hundreds of theirs.
type fairQueue struct {
	most int // commands, over all namespaces

	mu    sync.Mutex
	lanes map[string]*queueLane // those with something in them
	turn  []*queueLane          // the same, next first
	spare *queueLane            // an empty one, to be used again
	held  int                   // commands; a fence counts as one
	mixed bool                  // the last batch was not all reserves of one key

	some chan struct{} // holds a value while there may be something
}

// queueLane is what waits of one namespace.
type queueLane struct {
	namespace string
	line      fifo             // what may be taken, oldest first
	inLine    map[string]int   // reserves in line, by key
	behind    map[string]*fifo // further reserves of a key that has maxSameKey in line
	held      int
}

// fifo is a list of proposals that reuses its room.
type fifo struct {
	items []*proposal
	head  int
}

func (f *fifo) len() int         { return len(f.items) - f.head }
func (f *fifo) push(p *proposal) { f.items = append(f.items, p) }
func (f *fifo) first() *proposal { return f.items[f.head] }
func (f *fifo) drop() *proposal {
	p := f.items[f.head]
	f.items[f.head] = nil
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return p
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

// reserves gives the key that p alone reserves, or the fingerprint; "" when it
// is another command or a list.
func (p *proposal) reserves() string {
	if len(p.cmds) != 1 || p.cmds[0].Op != fsmpb.Op_OP_RESERVE {
		return ""
	}
	if p.cmds[0].Key == "" {
		return p.cmds[0].Fingerprint
	}
	return p.cmds[0].Key
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
		l = q.open(name)
	}
	if !l.push(p, q.most/sameKeyShare) {
		return false
	}
	l.held += w
	q.held += w
	q.signal()
	return true
}

// open begins the lane of a namespace.
func (q *fairQueue) open(name string) *queueLane {
	l := q.spare
	if q.spare = nil; l == nil {
		l = &queueLane{inLine: map[string]int{}}
	}
	l.namespace = name
	q.lanes[name] = l
	q.turn = append(q.turn, l)
	return l
}

// push puts p at the end of the line, or behind the others of its key, of which
// at most most may be.
func (l *queueLane) push(p *proposal, most int) bool {
	key := p.reserves()
	if key == "" {
		l.line.push(p)
		return true
	}
	b := l.behind[key]
	if b == nil && l.inLine[key] < maxSameKey {
		l.inLine[key]++
		l.line.push(p)
		return true
	}
	if b == nil {
		if l.behind == nil {
			l.behind = map[string]*fifo{}
		}
		b = &fifo{}
		l.behind[key] = b
	}
	if b.len() >= most {
		return false
	}
	b.push(p)
	return true
}

// advance moves reserves from behind others of their key to the end of the
// line, as many as one batch takes. Those that were given up go; it gives how
// many did.
func (l *queueLane) advance(mixed bool) (gone int) {
	for key, b := range l.behind {
		most := maxSameKey
		if !mixed && l.line.len() == l.inLine[key] {
			most = maxSameAlone
		}
		for b.len() > 0 && l.inLine[key] < most {
			p := b.drop()
			if p.state.Load() == proposalGivenUp {
				gone++
				continue
			}
			l.inLine[key]++
			l.line.push(p)
		}
		if b.len() == 0 {
			delete(l.behind, key)
		}
	}
	l.held -= gone
	return gone
}

// drop takes the first of the line.
func (l *queueLane) drop() *proposal {
	p := l.line.drop()
	if key := p.reserves(); key != "" {
		if l.inLine[key]--; l.inLine[key] == 0 {
			delete(l.inLine, key)
		}
	}
	l.held -= p.weight()
	return p
}

func (q *fairQueue) signal() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// take appends to batch what waits, from the namespaces in turn, from each the
// oldest first, and marks it as taken. It stops at a proposal that is too large
// for the rest of the batch; a proposal is never split. Those that were given
// up, or are too late, are left out.
func (q *fairQueue) take(batch []*proposal, most, mostBytes int) []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.turn {
		q.held -= l.advance(q.mixed || len(q.turn) > 1 || len(l.behind) > 1)
	}
	commands, bytes := 0, 0
	for more := true; more; {
		more = false
		for i, l := range q.turn {
			if l.line.len() == 0 {
				continue
			}
			p := l.line.first()
			if len(batch) > 0 && (commands+len(p.cmds) > most || bytes+p.bytes > mostBytes) {
				if i > 0 {
					q.turn = slices.Concat(q.turn[i:], q.turn[:i])
				}
				more = false
				break
			}
			more = true
			l.drop()
			q.held -= p.weight()
			if p.take() {
				batch = append(batch, p)
				commands += len(p.cmds)
				bytes += p.bytes
			}
		}
	}
	if len(batch) > 0 {
		key := batch[0].reserves()
		q.mixed = key == "" || slices.ContainsFunc(batch, func(p *proposal) bool { return p.reserves() != key })
	}
	q.turn = slices.DeleteFunc(q.turn, func(l *queueLane) bool {
		if l.held > 0 {
			return false
		}
		delete(q.lanes, l.namespace)
		q.spare = l
		return true
	})
	if len(q.turn) > 0 {
		q.signal()
	}
	return batch
}

// wait takes a batch, waiting for something to come; it is empty when ctx ends
// first.
func (q *fairQueue) wait(ctx context.Context, batch []*proposal, most, mostBytes int) []*proposal {
	for {
		if batch = q.take(batch, most, mostBytes); len(batch) > 0 {
			return batch
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
