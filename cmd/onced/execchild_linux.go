package main

import "syscall"

// dieWithExec has the kernel kill the command when the thread that started it
// ends: an exec that is killed must not leave a command behind that still works
// while somebody reads "exec is dead" and frees the key.
func dieWithExec() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
