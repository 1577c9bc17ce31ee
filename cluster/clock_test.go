package cluster

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
)

// worldClock drives the clocks of several nodes by one true time; each has a
// wall clock that is off by a fixed amount.
type worldClock struct {
	now    time.Time
	clocks []*clock
	off    []time.Duration
}

func newWorldClock(offsets ...time.Duration) *worldClock {
	w := &worldClock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), off: offsets}
	for i := range offsets {
		c := newClock(w.read, func() time.Time { return w.now.Add(w.off[i]) })
		c.setVoters(len(offsets))
		w.clocks = append(w.clocks, c)
	}
	return w
}

func (w *worldClock) read() time.Time { return w.now }

// meet lets every node that is up hear the wall clocks of the others that are.
func (w *worldClock) meet(up []int) {
	for _, i := range up {
		for _, j := range up {
			if i != j {
				w.clocks[i].heardWall(fmt.Sprint(j), fsm.TimeOf(w.now.Add(w.off[j])), 0)
			}
		}
	}
}

// restart forgets what a node held in memory.
func (w *worldClock) restart(i int) {
	c := newClock(w.clocks[i].now, w.clocks[i].wall)
	c.setVoters(len(w.off))
	w.clocks[i] = c
}

// TestM_LogTimeUnderWrongWallClocks runs leaders through elections, restarts and
// stops of everything, with one wall clock up to a day off and set anew at
// times, and holds log time against true time: it never falls, never runs more
// than a tenth too fast while some node remembers (no lease ends early), and a
// stop of all nodes is counted in full. Source: semantics.md section 6; B26, B27.
func TestM_LogTimeUnderWrongWallClocks(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		for seed := range int64(20) {
			t.Run(fmt.Sprintf("off=%v/seed=%d", wrong, seed), func(t *testing.T) {
				rng := rand.New(rand.NewSource(seed))
				w := newWorldClock(0, time.Duration(rng.Intn(100)-50)*time.Millisecond, wrong)
				all := []int{0, 1, 2}
				leader, last, lastTrue := 0, fsm.Time(0), w.now
				outage, onlyTwo := true, false
				for range 5_000 {
					w.now = w.now.Add(time.Duration(rng.ExpFloat64() * float64(time.Second)))
					switch k := rng.Intn(1000); {
					case k < 2: // everything stops for a while
						w.now = w.now.Add(time.Duration(rng.Intn(900)) * time.Second)
						for i := range all {
							w.restart(i)
						}
						outage = true
					case k < 6:
						i := rng.Intn(3)
						w.restart(i)
						if i == leader {
							leader = (leader + 1) % 3
						}
					case k < 10:
						leader = rng.Intn(3)
					case k < 20 && wrong != 0: // somebody sets the wrong one anew
						w.off[2] = time.Duration(rng.Int63n(int64(48*time.Hour))) - 24*time.Hour
					}
					onlyTwo = !outage && rng.Intn(50) == 0 // after a stop of all, all are heard
					if onlyTwo {
						w.meet([]int{leader, (leader + 1) % 3})
					} else {
						w.meet(all)
					}
					stamp, at, ok := w.clocks[leader].next(last)
					if !ok {
						t.Fatal("no stamp although all wall clocks are known")
					}
					if stamp < last {
						t.Fatalf("log time fell from %d to %d", last, stamp)
					}
					real := w.now.Sub(lastTrue)
					if live, _ := w.clocks[leader].isLive(); live && !outage && stamp.Sub(last) > real+real/10+200*time.Millisecond {
						t.Fatalf("log time ran %v in %v", stamp.Sub(last), real)
					}
					for _, c := range w.clocks {
						c.applied(stamp, at.Add(time.Duration(rng.Intn(20))*time.Millisecond))
					}
					if ahead := stamp.Sub(fsm.TimeOf(w.now)); ahead > time.Second {
						t.Fatalf("log time is %v ahead", ahead)
					}
					last, lastTrue, outage = stamp, w.now, false
				}
				if behind := fsm.TimeOf(w.now).Sub(last); behind > time.Second {
					t.Fatalf("log time ended %v behind", behind)
				}
			})
		}
	}
}

func TestClockNeedsAMajorityForItsFirstStamp(t *testing.T) {
	t.Parallel()
	w := newWorldClock(0, 0, 0)
	if _, _, ok := w.clocks[0].next(5); ok {
		t.Fatal("a stamp from one wall clock of three")
	}
	w.meet([]int{0, 1})
	stamp, _, ok := w.clocks[0].next(5)
	if !ok || stamp != fsm.TimeOf(w.now) {
		t.Fatalf("stamp %v %v, want the lower median", stamp, ok)
	}
	// An old reading counts no longer.
	w.now = w.now.Add(wallReadingAge + time.Second)
	if _, _, ok := w.clocks[0].next(5); ok {
		t.Fatal("a stamp from a reading that is too old")
	}
}

func TestClockSteersAtMostATenth(t *testing.T) {
	t.Parallel()
	w := newWorldClock(0, 0, 0)
	w.meet([]int{0, 1, 2})
	c := w.clocks[0]
	// Log time is an hour behind the wall clocks: it may catch up only slowly.
	start := fsm.TimeOf(w.now.Add(-time.Hour))
	c.applied(start, w.now)
	w.now = w.now.Add(10 * time.Second)
	w.meet([]int{0, 1, 2})
	stamp, _, _ := c.next(start)
	if got := stamp.Sub(start); got != 11*time.Second {
		t.Fatalf("10 s became %v, want 11 s", got)
	}
	// An hour ahead: it is slowed by the same share.
	start = fsm.TimeOf(w.now.Add(time.Hour))
	c.applied(start, w.now)
	w.now = w.now.Add(10 * time.Second)
	w.meet([]int{0, 1, 2})
	stamp, _, _ = c.next(start)
	if got := stamp.Sub(start); got != 9*time.Second {
		t.Fatalf("10 s became %v, want 9 s", got)
	}
	// Within 0.2 s nothing is done.
	start = fsm.TimeOf(w.now.Add(150 * time.Millisecond))
	c.applied(start, w.now)
	w.now = w.now.Add(10 * time.Second)
	w.meet([]int{0, 1, 2})
	stamp, _, _ = c.next(start)
	if got := stamp.Sub(start); got != 10*time.Second {
		t.Fatalf("10 s became %v, want 10 s", got)
	}
}

func TestClockEstimateIsNeverAhead(t *testing.T) {
	t.Parallel()
	w := newWorldClock(0)
	c := w.clocks[0]
	if got := c.estimate(7); got != 7 {
		t.Fatalf("estimate %d before anything live, want the machine's time", got)
	}
	c.applied(1_000, w.now)
	w.now = w.now.Add(5 * time.Microsecond)
	if got := c.estimate(7); got != 1_005 {
		t.Fatalf("estimate %d, want 1005", got)
	}
	c.heardLeader(900) // older than what is known: no step back
	if got := c.estimate(7); got != 1_005 {
		t.Fatalf("estimate %d after an older word of the leader, want 1005", got)
	}
	c.heardLeader(2_000)
	if got := c.estimate(7); got != 2_000 {
		t.Fatalf("estimate %d, want the leader's 2000", got)
	}
	if got := c.estimate(3_000); got != 3_000 {
		t.Fatalf("estimate %d, want the machine's 3000", got)
	}
}
