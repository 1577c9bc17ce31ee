//go:build !linux

package main

import "syscall"

// processAttributes need Linux; elsewhere a server outlives a kill -9 of this
// program.
func processAttributes() *syscall.SysProcAttr { return nil }

func fileSystem(string) (string, error) { return "file system not known", nil }
