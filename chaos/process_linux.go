package chaos

import "syscall"

func childAttributes() *syscall.SysProcAttr {
	// A group of its own: an interrupt at the terminal is for the runner, which
	// ends the nodes itself.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
