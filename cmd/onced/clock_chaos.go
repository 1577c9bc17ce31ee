//go:build chaos

package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const movableClock = true

// wallClock gives a wall clock that is moved by the seconds that the file named
// by CHAOS_CLOCK_FILE holds. The file is looked at every 20 ms.
func wallClock() func() time.Time {
	path := os.Getenv("CHAOS_CLOCK_FILE")
	if path == "" {
		return time.Now
	}
	var seconds atomic.Int64
	read := func() {
		b, err := os.ReadFile(path)
		if err != nil {
			seconds.Store(0)
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			seconds.Store(n)
		}
	}
	read()
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			read()
		}
	}()
	return func() time.Time { return time.Now().Add(time.Duration(seconds.Load()) * time.Second) }
}
