//go:build unix

package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the processor time of this process so far, user and system.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
