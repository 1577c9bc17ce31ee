package main

import (
	"fmt"
	"net"
	"strconv"
)

// Ports of a cluster on one machine: node i (from 1) serves HTTP on
// base+10(i-1) and the other nodes on the port after it.
const (
	defaultBasePort = 4747
	portStep        = 10
)

func httpPort(base, i int) int { return base + portStep*(i-1) }

// portBlock is the bound listeners of nodes 1 to n, HTTP and peers each.
type portBlock struct {
	base  int
	http  []net.Listener
	peers []net.Listener
}

// busyPortError says which port of a block is taken.
type busyPortError struct {
	port int
	err  error
}

func (e *busyPortError) Error() string {
	return fmt.Sprintf("port %d cannot be listened on: %v", e.port, rootCause(e.err))
}

// bindBlock listens on all ports of the block, or on none and says which one
// is busy.
func bindBlock(base, nodes int) (*portBlock, error) {
	b := &portBlock{base: base}
	for i := 1; i <= nodes; i++ {
		for _, kind := range []*[]net.Listener{&b.http, &b.peers} {
			port := httpPort(base, i)
			if kind == &b.peers {
				port++
			}
			l, err := listenLoopback(port)
			if err != nil {
				b.close()
				return nil, &busyPortError{port, err}
			}
			*kind = append(*kind, l)
		}
	}
	return b, nil
}

// bindFreeBlock binds the default block or, where that is busy, the next that
// is free; first is then why the default one is not it.
func bindFreeBlock(nodes int) (b *portBlock, first error, err error) {
	for base := defaultBasePort; httpPort(base, nodes)+1 <= 65535; base += portStep * nodes {
		b, err = bindBlock(base, nodes)
		if err == nil {
			return b, first, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first, err
}

func (b *portBlock) close() {
	for _, l := range append(b.http, b.peers...) {
		l.Close()
	}
}

func listenLoopback(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// listenAndClose finds out whether an address can be listened on.
func listenAndClose(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}
