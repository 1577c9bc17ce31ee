//go:build chaos

package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

const movableClock = true

// wallClock gives a clock whose wall time is moved by the seconds that the file
// named by CHAOS_CLOCK_FILE holds, while its monotonic reading goes on: what a
// stepped system clock looks like. The file is looked at every 20 ms.
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
	return func() time.Time { return stepped(time.Now(), seconds.Load()) }
}

// stepped moves the wall reading of t alone, which time.Time has no way to do:
// Add moves both. In a Time with a monotonic reading the first word holds a
// flag, 33 bits of seconds and 30 of nanoseconds.
func stepped(t time.Time, seconds int64) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	if *wall>>63 == 0 {
		return t.Add(time.Duration(seconds) * time.Second)
	}
	*wall += uint64(seconds) << 30 // wraps for negative ones, as it must
	return t
}
