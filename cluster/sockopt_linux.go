package cluster

import (
	"net"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h; package syscall lacks it.
const tcpUserTimeout = 0x12

// setUserTimeout makes a connection fail when the other machine has not
// acknowledged data for 2 s. Left alone, TCP waits longer after each loss, and a
// connection stays stuck for seconds after a cut link is back.
func setUserTimeout(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, 2000)
		})
	}
}
