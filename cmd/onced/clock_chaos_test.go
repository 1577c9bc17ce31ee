//go:build chaos

package main

import (
	"testing"
	"time"
)

func TestSteppedMovesTheWallAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, seconds := range []int64{0, 1, -1, 86400, -86400} {
		moved := stepped(now, seconds)
		if d := moved.Sub(now); d != 0 {
			t.Errorf("%d s: the monotonic reading moved by %v", seconds, d)
		}
		if d := moved.Round(0).Sub(now.Round(0)); d != time.Duration(seconds)*time.Second {
			t.Errorf("%d s: the wall moved by %v", seconds, d)
		}
	}
}
