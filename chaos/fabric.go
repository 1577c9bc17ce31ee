package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// Fabric is what lies between the nodes: it can cut them from each other, while
// clients go on reaching every one of them. Nodes are named by their place in
// Nodes.All. A fabric holds one disturbance at a time; Heal ends it.
type Fabric interface {
	// Cut lets nothing through from one node to another, one way.
	Cut(from, to int) error
	// Heal ends every disturbance.
	Heal() error
	// Stopped counts what did not get through since the fabric began, and says
	// of what.
	Stopped() (n int64, unit string, err error)
	// Close takes the fabric down.
	Close() error
}

// errNotHere says that a fabric cannot do what a fault asks for.
var errNotHere = errors.New("not with this network")

// isolate cuts a node from all others, both ways.
func isolate(f Fabric, nodes, node int) error {
	var errs error
	for other := range nodes {
		if other != node {
			errs = errors.Join(errs, f.Cut(node, other), f.Cut(other, node))
		}
	}
	return errs
}

// loopback gives n nodes on 127.0.0.1 that reach each other through proxies
// which this process can cut: no root needed. dir is where they live.
func loopback(n int, dir string) ([]*Node, *proxies, error) {
	base, err := freeBlock(3 * n)
	if err != nil {
		return nil, nil, err
	}
	address := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	nodes := make([]*Node, n)
	var upstream, listen []string
	for i := range n {
		nodes[i] = &Node{
			ID: fmt.Sprintf("n%d", i+1), HTTP: address(base + 3*i), Peer: address(base + 3*i + 1),
			advertise: address(base + 3*i + 2), Dir: filepath.Join(dir, fmt.Sprintf("n%d", i+1)),
		}
		listen, upstream = append(listen, nodes[i].advertise), append(upstream, nodes[i].Peer)
	}
	p, err := newProxies(listen, upstream, nodes)
	if err != nil {
		return nil, nil, err
	}
	return nodes, p, nil
}

// freeBlock gives the first of n ports in a row that nobody listens on, below
// those that systems give to outgoing connections.
func freeBlock(n int) (int, error) {
	for range 200 {
		base := 12000 + rand.IntN(18000)
		free := true
		for port := base; port < base+n && free; port++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return base, nil
		}
	}
	return 0, errors.New("no free block of ports")
}

// helloTime is how long a new connection may take to say who it is.
const helloTime = 5 * time.Second
