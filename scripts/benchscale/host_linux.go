package main

import (
	"fmt"
	"syscall"
)

// processAttributes put a server into a process group of its own, so that Ctrl-C
// reaches it through this program only, and have the kernel end it when the
// thread that started it is gone, even by a kill -9.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// fileSystem names that of dir. One that lives in memory is refused: a sync
// costs nothing there.
func fileSystem(dir string) (string, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "", err
	}
	switch int64(s.Type) {
	case 0x01021994, 0x858458f6:
		return "", fmt.Errorf("%s is in memory, where a sync costs nothing: set TMPDIR to a directory on a disk", dir)
	case 0xEF53:
		return "ext4", nil
	case 0x58465342:
		return "xfs", nil
	case 0x9123683E:
		return "btrfs", nil
	}
	return fmt.Sprintf("file system %#x", int64(s.Type)), nil
}
