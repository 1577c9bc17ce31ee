package cluster

import (
	"testing"
	"time"

	"github.com/onced/onced/fsm"
)

// However fast records become due, the backlog stays bounded; and one that is
// there at once goes in the small steps.
func TestSweepsKeepUp(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []int{0, 1_000, 20_000, 50_000} {
		p := newSweepPace()
		due, worst := 1_000_000, 0
		var now time.Duration
		for now < 10*time.Minute {
			took := 10*time.Millisecond + time.Duration(p.limit)*4*time.Microsecond // the log, and applying it
			due = max(0, due-int(p.limit))
			if due == 0 {
				break
			}
			p.swept(due)
			now += 2 * took
			due += perSecond * int(2*took/time.Millisecond) / 1000
			worst = max(worst, due)
		}
		if due != 0 || worst > 1_100_000 {
			t.Errorf("%d due a second: %d left after %v, at most %d", perSecond, due, now, worst)
		}
		if perSecond <= 1_000 && p.limit != sweepLeast {
			t.Errorf("%d due a second: sweeps of %d", perSecond, p.limit)
		}
		if p.limit > fsm.MaxSweep {
			t.Errorf("sweeps of %d", p.limit)
		}
	}
}
