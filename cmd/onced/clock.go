//go:build !chaos

package main

import "time"

// movableClock tells that the wall clock can be moved by a file: never in a
// build that anybody runs in earnest.
const movableClock = false

// wallClock gives the wall clock of the node.
func wallClock() func() time.Time { return time.Now }
