package e2e

import "syscall"

// ownProcess ends a node when the test binary dies without its cleanups, as it
// does when it runs out of time.
func ownProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
