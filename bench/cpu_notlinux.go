//go:build !linux

package bench

import (
	"errors"
	"time"
)

// CPUOf works on Linux alone.
func CPUOf(...int) (time.Duration, error) {
	return 0, errors.ErrUnsupported
}
