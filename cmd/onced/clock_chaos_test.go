//go:build chaos

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheClockFileMovesTheWall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offset")
	t.Setenv("CHAOS_CLOCK_FILE", file)
	wall := wallClock()
	for _, seconds := range []string{"0", "86400", "-86400"} {
		if err := os.WriteFile(file, []byte(seconds+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want, _ := time.ParseDuration(seconds + "s")
		for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // between two looks
			off := time.Until(wall())
			if (off - want).Abs() < time.Minute {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("the wall is %v off, want %v", off, want)
			}
		}
	}
}
