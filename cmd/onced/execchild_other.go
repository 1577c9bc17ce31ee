//go:build !linux

package main

import "syscall"

// dieWithExec has nothing to offer here: a command may outlive its exec.
func dieWithExec() *syscall.SysProcAttr { return nil }
