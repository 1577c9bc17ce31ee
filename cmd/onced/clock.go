//go:build !chaos

package main

import "time"

// movableClock tells that the wall clock can be moved by a file: never in a
// build that anybody runs in earnest.
const movableClock = false

// wallClock gives the clock that the node runs on.
func wallClock() func() time.Time { return time.Now }
