//go:build !linux

package cluster

import "net"

// setUserTimeout has no equal here; keep-alive and calls' own deadlines serve.
func setUserTimeout(net.Conn) {}
