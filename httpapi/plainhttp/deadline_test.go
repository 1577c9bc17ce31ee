package plainhttp

import (
	"testing"
	"testing/synctest"
	"time"
)

// A deadline that is moved in steps is never nearer than seven eighths of what was
// asked for, never further than all of it, and hardly ever set.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at time.Time
		sets := 0
		d := deadline{set: func(to time.Time) error { at, sets = to, sets+1; return nil }}
		const long = 80 * time.Second
		for range 1000 {
			d.about(long)
			if left := time.Until(at); left < long*7/8 || left > long {
				t.Fatalf("%v are left, of %v", left, long)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if sets > 12 {
			t.Errorf("set %d times in 100 s", sets)
		}
		d.about(long / 8)
		if left := time.Until(at); left != long/8 {
			t.Errorf("a shorter one: %v are left, of %v", left, long/8)
		}
		d.exactly(time.Second)
		d.about(long / 8)
		if left := time.Until(at); left != long/8 {
			t.Errorf("after an exact one: %v are left, of %v", left, long/8)
		}
		if d.about(0); !at.IsZero() {
			t.Errorf("no deadline: %v", at)
		}
		if d.about(long / 8); time.Until(at) != long/8 {
			t.Errorf("one after none: %v", at)
		}
	})
}
