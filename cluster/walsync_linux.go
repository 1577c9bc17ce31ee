package cluster

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives f its size, with blocks where the file system can: then an
// append never lacks space.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return f.Truncate(size)
		}
		return os.NewSyscallError("fallocate", err)
	}
}

// syncData is fsync without what nobody needs to read the data again.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
