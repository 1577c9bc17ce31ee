package chaos

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// search looks for an order of one key's calls that the contract explains.
//
// The log has decided the order of most of them: an answer carries the index
// that it was decided at. Such calls have a rank, and the search takes them by
// rank; real time must agree. The others are no operations of the search, for
// placing them one by one, now or later or never, is what takes for ever:
//
//   - Calls of unknown fate may have been applied between any two others. Before
//     each known call, every state that they can have led to is added to those
//     that the key may be in.
//   - Replays from a node's memory change nothing. Each of those states says
//     which of them it, or one before it, explains; one that explains a replay
//     neither before nor when its time is over is none.
type search struct {
	ctx     context.Context
	policy  *Policy
	birth   int64
	known   []*Op // that the log decided
	rank    map[*Op]int
	ranks   []rank
	replays []replay // by when they ended
	unknown []*Op    // by their call; copies of known calls, too

	// What the search came upon, for people.
	crowded atomic.Bool            // too many states: some were left out, and "none fits" proves nothing
	stuck   atomic.Pointer[replay] // the call furthest on in the log that did not fit
}

// rank is a place in the log at which calls on the key were decided.
type rank struct {
	size   int
	time   int64  // of the log
	ended  int64  // when the first of them had
	before int64  // no call that began later can have come before them in the log
	shows  uint64 // the next version that an answer shows from here on; 0: none does
	by     int64  // the log time of that answer
}

// Bounds of what calls of unknown fate may lead to between two known calls.
const (
	mostUnknown = 12    // of them applied
	mostStates  = 20000 // that the key may be in
)

func newSearch(ctx context.Context, part []*Op, copies bool) *search {
	s := &search{ctx: ctx, policy: policyOf(part[0].NS), birth: birthOf(part[0].Key), rank: map[*Op]int{}}
	for _, o := range part {
		switch {
		case o.Fate == Unknown:
			s.unknown = append(s.unknown, o)
		case o.Fate == Known:
			if o.Answer.Local && !s.policy.RerunExpired {
				s.replays = append(s.replays, replay{Op: o})
				continue
			}
			s.known = append(s.known, o)
			// A call that is repeated inside after a lost reply can come into the
			// log more than once.
			if copies && o.Kind != Get && o.Answer.Says != "replayed" {
				s.unknown = append(s.unknown, o)
			}
		}
	}
	sort.SliceStable(s.unknown, func(i, j int) bool { return s.unknown[i].Call < s.unknown[j].Call })
	s.order()
	return s
}

// replay is a repeat that a node may have answered from its memory.
type replay struct {
	*Op
	rank int // every call of a lower one must come before it, and of this one some
}

// order gives every call that the log decided its rank. A read stands behind
// the entry that it is as fresh as.
func (s *search) order() {
	place := func(o *Op) uint64 {
		if o.Kind == Get {
			return 2*o.Answer.Index + 1
		}
		return 2 * o.Answer.Index
	}
	var log []*Op
	for _, o := range s.known {
		if o.Answer.Index != 0 {
			log = append(log, o)
		}
	}
	sort.SliceStable(log, func(i, j int) bool { return place(log[i]) < place(log[j]) })
	for i, o := range log {
		if i == 0 || place(o) != place(log[i-1]) {
			s.ranks = append(s.ranks, rank{ended: math.MaxInt64, before: math.MaxInt64})
		}
		r := len(s.ranks) - 1
		s.rank[o] = r
		s.ranks[r].size++
		s.ranks[r].time = max(s.ranks[r].time, o.Answer.Time)
		s.ranks[r].ended = min(s.ranks[r].ended, o.Return)
		s.ranks[r].before = s.ranks[r].ended
		if seen := o.Answer.Record; seen != nil {
			s.ranks[r].shows, s.ranks[r].by = max(s.ranks[r].shows, seen.Version), o.Answer.Time
		}
	}
	for r := len(s.ranks) - 2; r >= 0; r-- {
		here, next := &s.ranks[r], &s.ranks[r+1]
		here.before = min(here.before, next.before)
		if here.shows == 0 {
			here.shows, here.by = next.shows, next.by
		}
	}
	sort.SliceStable(s.replays, func(i, j int) bool { return s.replays[i].Return < s.replays[j].Return })
	for i := range s.replays {
		s.replays[i].rank = -1
		for r, x := range s.ranks {
			if x.ended < s.replays[i].Call {
				s.replays[i].rank = r
			}
		}
	}
	if len(s.replays) > 0 { // what is left of them must be explained in the end
		s.known = append(s.known, &Op{Kind: theEnd, Call: math.MaxInt64 / 2, Return: math.MaxInt64 / 2, Answer: &Answer{}})
	}
}

// theEnd is the kind of an operation that stands for the end of the history.
const theEnd = "end"

// ended gives how many replays had ended at a time.
func (s *search) ended(t int64) int {
	return sort.Search(len(s.replays), func(i int) bool { return s.replays[i].Return >= t })
}

// place is a state that the key may be in.
type place struct {
	state
	// since is how late a call of unknown fate began that led here: a replay that
	// ended before it cannot come behind it.
	since int64
	told  told // the replays that are explained, of those whose time is not over
}

// told is a set of replays, two bytes each, in order.
type told string

func (t told) has(i int) bool {
	for j := 0; j < len(t); j += 2 {
		if int(t[j])<<8|int(t[j+1]) == i {
			return true
		}
	}
	return false
}

func (t told) with(i int) told {
	j := 0
	for j < len(t) && int(t[j])<<8|int(t[j+1]) < i {
		j += 2
	}
	return t[:j] + told([]byte{byte(i >> 8), byte(i)}) + t[j:]
}

// contains tells whether all of u are in t.
func (t told) contains(u told) bool {
	for j := 0; j < len(u); j += 2 {
		if !t.has(int(u[j])<<8 | int(u[j+1])) {
			return false
		}
	}
	return true
}

// from gives t without those below i, and the first of those from closed on that
// is not in it; -1 when all are.
func (t told) from(closed, i int) (left told, missing int) {
	for j := closed; j < i; j++ {
		if !t.has(j) {
			return t, j
		}
	}
	n := 0
	for n < len(t) && int(t[n])<<8|int(t[n+1]) < i {
		n += 2
	}
	return t[n:], -1
}

// spot is how far an order has come: what the key may be in, and how many calls
// of which rank are in it.
type spot struct {
	places []place
	rank   int // -1: none
	done   int
	closed int // replays whose time is over
	hash   uint64
}

var seedOfPlaces = maphash.MakeSeed()

// seal gives n once its places, which all differ, are in it.
func (n spot) seal() *spot {
	n.hash = uint64(n.rank)<<32 ^ uint64(n.done)<<16 ^ uint64(n.closed)
	for _, p := range n.places {
		n.hash ^= maphash.Comparable(seedOfPlaces, p) // in whatever order
	}
	return &n
}

func (n *spot) equal(m *spot) bool {
	if n.hash != m.hash || len(n.places) != len(m.places) || n.rank != m.rank || n.done != m.done || n.closed != m.closed {
		return false
	}
	in := make(map[place]bool, len(n.places))
	for _, p := range n.places {
		in[p] = true
	}
	for _, p := range m.places {
		if !in[p] {
			return false
		}
	}
	return true
}

// String shows the first of many states.
func (n *spot) String() string {
	var b strings.Builder
	for i, p := range n.places {
		if i == 8 {
			fmt.Fprintf(&b, ", or one of %d others", len(n.places)-i)
			break
		}
		if i > 0 {
			b.WriteString(", or ")
		}
		b.WriteString(p.state.String())
	}
	return b.String()
}

// model gives the porcupine model of s. Inputs are *Op.
func (s *search) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return spot{places: []place{{}}, rank: -1}.seal() },
		StepContext: func(ctx context.Context, at, in, _ any) (bool, any) {
			next := s.step(ctx, at.(*spot), in.(*Op))
			return next != nil, next
		},
		Equal: func(a, b any) bool { return a.(*spot).equal(b.(*spot)) },
		Hash:  func(at any) uint64 { return at.(*spot).hash },
		DescribeOperation: func(in, _ any) string {
			if o := in.(*Op); o.Kind != theEnd {
				return o.String()
			}
			return fmt.Sprintf("the end: all of %d replays from memory are explained", len(s.replays))
		},
		DescribeState: func(at any) string { return at.(*spot).String() },
	}
}

// front holds places of which none makes another superfluous: one that is like
// it, but for times that are known less exactly, or come later, or for replays
// that are explained already.
type front struct {
	list []place
	like map[place][]place
}

func newFront(room int) *front {
	return &front{list: make([]place, 0, room), like: make(map[place][]place, room)}
}

// add takes p, unless it is superfluous.
func (f *front) add(p place) bool {
	core := p
	core.now, core.lease, core.expires, core.retained = 0, span{}, span{}, span{}
	core.since, core.told = 0, ""
	for _, q := range f.like[core] {
		if q.now <= p.now && q.lease.contains(p.lease) && q.expires.contains(p.expires) && q.retained.contains(p.retained) &&
			q.since <= p.since && q.told.contains(p.told) {
			return false
		}
	}
	f.like[core] = append(f.like[core], p)
	f.list = append(f.list, p)
	return true
}

// step puts o behind what n has; nil when it does not fit there.
func (s *search) step(ctx context.Context, n *spot, o *Op) *spot {
	r, logged := s.rank[o]
	next := *n
	w := window{rank: n.rank, until: forever, before: o.Return}
	upcoming := n.rank // what is next in the log
	if upcoming < 0 || n.done == s.ranks[upcoming].size {
		upcoming++
	}
	if logged {
		if r != upcoming {
			return nil
		}
		if next.rank != r {
			next.rank, next.done = r, 0
		}
		next.done++
	}
	if upcoming < len(s.ranks) {
		if o.Kind == theEnd {
			return nil
		}
		u := s.ranks[upcoming]
		w.until, w.shows, w.by = u.time, u.shows, u.by
		w.before = min(w.before, u.before)
	}
	next.closed = max(n.closed, s.ended(o.Call))
	behind := newFront(len(n.places))
	stuck := o
	for _, p := range s.reach(ctx, n, w) {
		left, missing := p.told.from(n.closed, next.closed)
		if missing >= 0 {
			stuck = s.replays[missing].Op
			continue
		}
		p.told = left
		if p.since <= o.Call {
			p.since = 0 // what ended before it has been placed
		}
		if o.Kind == theEnd {
			behind.add(p)
			break
		}
		for _, to := range p.state.step(o, s.policy, s.birth) {
			behind.add(place{to, p.since, p.told})
		}
	}
	next.places = behind.list
	if len(next.places) == 0 || ctx.Err() != nil || s.ctx.Err() != nil {
		if before := s.stuck.Load(); before == nil || before.rank < upcoming {
			s.stuck.Store(&replay{stuck, upcoming})
		}
		return nil
	}
	return next.seal()
}
