package cluster

import (
	"sort"
	"sync"
	"time"

	"github.com/onced/onced/fsm"
)

// The steering of log time (semantics.md section 6).
const (
	steerShare     = 10                     // at most one part in ten of the elapsed time
	steerDeadband  = 200 * time.Millisecond // nothing is done within it
	wallReadingAge = 30 * time.Second       // an older reading of a peer's wall clock is not used
)

// clock is this node's idea of log time. Log time is carried forward by a
// monotonic clock from an anchor, the last stamp that was applied live; wall
// clocks only steer it, by their lower median, so that one wrong wall clock
// moves nothing and no lease ends early.
type clock struct {
	now  func() time.Time // monotonic
	wall func() time.Time

	mu     sync.Mutex
	live   bool      // the anchor was set by something live since the start
	stamp  fsm.Time  // anchor: log time ...
	at     time.Time // ... at this monotonic reading
	walls  map[string]wallReading
	voters int // that a median must speak for
	wake   chan struct{}
}

// wallReading is a peer's wall clock as it was heard at one moment.
type wallReading struct {
	wall fsm.Time
	at   time.Time
}

func newClock(now, wall func() time.Time) *clock {
	return &clock{now: now, wall: wall, walls: map[string]wallReading{}, voters: 1, wake: make(chan struct{})}
}

// setVoters says how many voters there are: a median needs a majority of them.
func (c *clock) setVoters(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.voters = n
}

// heardWall notes a peer's wall clock, read half a round trip ago.
func (c *clock) heardWall(id string, wall fsm.Time, rtt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.walls[id] = wallReading{wall.Add(rtt / 2), c.now()}
}

// offset gives how far a peer's wall clock is ahead of this node's.
func (c *clock) offset(id string) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.walls[id]
	if !ok {
		return 0, false
	}
	now := c.now()
	return w.wall.Add(now.Sub(w.at)).Sub(fsm.TimeOf(c.wall())), true
}

// applied anchors the clock at a stamp that was applied live; at is when this
// node made the stamp, or else when it applied it: never earlier than the
// stamp was true, so that the estimate is never ahead.
func (c *clock) applied(stamp fsm.Time, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.anchor(stamp, at)
}

// heardLeader anchors the clock at the leader's log time, when that is later
// than this node's own estimate.
func (c *clock) heardLeader(logTime fsm.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.live || logTime > c.carried(now) {
		c.anchor(logTime, now)
	}
}

func (c *clock) anchor(stamp fsm.Time, at time.Time) {
	if !c.live {
		c.live = true
		close(c.wake)
	}
	c.stamp, c.at = stamp, at
}

func (c *clock) carried(now time.Time) fsm.Time { return c.stamp.Add(now.Sub(c.at)) }

// isLive tells whether an estimate rests on something heard since the start,
// and gives a channel that is closed when it first does.
func (c *clock) isLive() (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, c.wake
}

// estimate gives log time as this node knows it: the last live stamp and its
// own monotonic time since. last is the machine's time, which it never falls
// behind.
func (c *clock) estimate(last fsm.Time) fsm.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.live {
		return last
	}
	return max(last, c.carried(c.now()))
}

// sure is estimate that tells whether it rests on something heard since the
// start. One that does not is as old as what the disk had: a node that comes
// back with a snapshot of last week would take last week's outcomes for live.
func (c *clock) sure(last fsm.Time) (fsm.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.live {
		return last, mutant == "olddisk"
	}
	return max(last, c.carried(c.now())), true
}

// next gives the stamp of the leader's next entry and the reading it was made
// at. It has none (ok false) only while nothing was applied live and the wall
// clocks of a majority are not known.
func (c *clock) next(last fsm.Time) (stamp fsm.Time, at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if mutant == "stepclock" {
		return max(last, fsm.TimeOf(c.wall())), now, true
	}
	median, known := c.median(now)
	if !c.live {
		if !known {
			return 0, now, false
		}
		return max(last, median), now, true
	}
	stamp = c.carried(now)
	if d := median.Sub(stamp); known && (d > steerDeadband || d < -steerDeadband) {
		most := now.Sub(c.at) / steerShare
		stamp = stamp.Add(max(-most, min(most, d)))
	}
	return max(last, stamp), now, true
}

// median gives the lower median of the wall clocks of this node and of the
// peers heard lately, when together they are a majority.
func (c *clock) median(now time.Time) (fsm.Time, bool) {
	walls := []fsm.Time{fsm.TimeOf(c.wall())}
	for _, w := range c.walls {
		if age := now.Sub(w.at); age <= wallReadingAge {
			walls = append(walls, w.wall.Add(age))
		}
	}
	if len(walls) < c.voters/2+1 {
		return 0, false
	}
	sort.Slice(walls, func(i, j int) bool { return walls[i] < walls[j] })
	return walls[(len(walls)-1)/2], true
}
