package main

import (
	"runtime/debug"
	"testing"
)

// The garbage collector is set for a node, but not against GOGC.
func TestRelaxGC(t *testing.T) {
	for _, c := range []struct {
		gogc string
		want int
	}{{"", gcPercent}, {"77", 77}, {"off", 77}} {
		t.Setenv("GOGC", c.gogc)
		before := debug.SetGCPercent(77) // as the runtime would have it from GOGC
		relaxGC()
		got := debug.SetGCPercent(before)
		if got != c.want {
			t.Errorf("GOGC=%q: %d, want %d", c.gogc, got, c.want)
		}
	}
}
