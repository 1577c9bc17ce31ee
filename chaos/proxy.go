package chaos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// proxies stand before the inter-node ports. A connection says in its first
// frame which node it comes from; from then on each direction of it obeys the
// link between the two. What a cut link is given is held, as a network that
// loses packets would make TCP hold it, and delivered at the end of the cut if
// the connection has lasted that long.
type proxies struct {
	nodes     []*Node
	listeners []net.Listener
	stopped   atomic.Int64 // bytes held or delayed, and connections reset
	tasks     sync.WaitGroup

	linksMu sync.Mutex // guards all below
	links   map[[2]int]*link
	conns   map[net.Conn]pair
	closed  bool
}

// pair is the two ends of a connection, as places of nodes.
type pair struct{ from, to int }

// link is one direction between two nodes.
type link struct {
	cut   bool
	delay time.Duration
	open  chan struct{} // closed when a cut ends
}

func newProxies(listen, upstream []string, nodes []*Node) (*proxies, error) {
	p := &proxies{nodes: nodes, links: map[[2]int]*link{}, conns: map[net.Conn]pair{}}
	for i := range listen {
		for j := range listen {
			p.links[[2]int{i, j}] = &link{}
		}
		l, err := net.Listen("tcp", listen[i])
		if err != nil {
			p.Close()
			return nil, err
		}
		p.listeners = append(p.listeners, l)
		p.tasks.Add(1)
		go p.accept(l, i, upstream[i])
	}
	return p, nil
}

func (p *proxies) accept(l net.Listener, to int, upstream string) {
	defer p.tasks.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.tasks.Add(1)
		go func() {
			defer p.tasks.Done()
			p.carry(c, to, upstream)
		}()
	}
}

// carry serves one connection to the node to.
func (p *proxies) carry(in net.Conn, to int, upstream string) {
	defer in.Close()
	if !p.track(in, pair{-1, to}) {
		return
	}
	defer p.forget(in)
	_ = in.SetReadDeadline(time.Now().Add(helloTime))
	hello, id, err := readHelloFrom(in)
	if err != nil {
		return
	}
	_ = in.SetReadDeadline(time.Time{})
	from := -1
	for i, n := range p.nodes {
		if n.ID == id {
			from = i
		}
	}
	if from < 0 || !p.track(in, pair{from, to}) {
		return
	}
	// A connection takes both directions to come about.
	if !p.pass(from, to, len(hello)) || !p.pass(to, from, 0) {
		return
	}
	out, err := net.DialTimeout("tcp", upstream, time.Second)
	if err != nil {
		reset(in)
		return
	}
	defer out.Close()
	if !p.track(out, pair{from, to}) {
		return
	}
	defer p.forget(out)
	if _, err := out.Write(hello); err != nil {
		return
	}
	var done sync.WaitGroup
	done.Add(2)
	go func() { defer done.Done(); p.copy(out, in, from, to) }()
	go func() { defer done.Done(); p.copy(in, out, to, from) }()
	done.Wait()
}

// copy moves bytes of one direction; the end of one direction ends both.
func (p *proxies) copy(dst, src net.Conn, from, to int) {
	defer dst.Close()
	defer src.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if n > 0 {
			if !p.pass(from, to, n) {
				return
			}
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until the link lets n bytes through; false when the proxies close.
func (p *proxies) pass(from, to, n int) bool {
	counted := false
	for {
		p.linksMu.Lock()
		l := p.links[[2]int{from, to}]
		cut, open, delay, closed := l.cut, l.open, l.delay, p.closed
		p.linksMu.Unlock()
		if closed {
			return false
		}
		if (cut || delay > 0) && !counted {
			p.stopped.Add(int64(n))
			counted = true
		}
		if !cut {
			if delay > 0 {
				t := time.NewTimer(delay)
				<-t.C
			}
			return true
		}
		<-open
	}
}

func (p *proxies) track(c net.Conn, between pair) bool {
	p.linksMu.Lock()
	defer p.linksMu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = between
	return true
}

func (p *proxies) forget(c net.Conn) {
	p.linksMu.Lock()
	defer p.linksMu.Unlock()
	delete(p.conns, c)
}

// Cut implements Fabric.
func (p *proxies) Cut(from, to int) error {
	p.linksMu.Lock()
	defer p.linksMu.Unlock()
	l := p.links[[2]int{from, to}]
	if !l.cut {
		l.cut, l.open = true, make(chan struct{})
	}
	return nil
}

// Slow delays what every link carries by d, each way.
func (p *proxies) Slow(d time.Duration) {
	p.linksMu.Lock()
	defer p.linksMu.Unlock()
	for _, l := range p.links {
		l.delay = d
	}
}

// Reset ends every connection of a node at once, as by a reset, and gives how
// many there were.
func (p *proxies) Reset(node int) int {
	p.linksMu.Lock()
	var conns []net.Conn
	for c, between := range p.conns {
		if between.from == node || between.to == node {
			conns = append(conns, c)
		}
	}
	p.linksMu.Unlock()
	for _, c := range conns {
		reset(c)
	}
	p.stopped.Add(int64(len(conns)))
	return len(conns)
}

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// Heal implements Fabric.
func (p *proxies) Heal() error {
	p.linksMu.Lock()
	defer p.linksMu.Unlock()
	for _, l := range p.links {
		if l.cut {
			l.cut = false
			close(l.open)
		}
		l.delay = 0
	}
	return nil
}

// Stopped implements Fabric: the bytes that were held or delayed.
func (p *proxies) Stopped() (int64, string, error) { return p.stopped.Load(), "bytes held", nil }

// Close implements Fabric.
func (p *proxies) Close() error {
	p.linksMu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.linksMu.Unlock()
	for _, l := range p.listeners {
		l.Close()
	}
	err := p.Heal()
	p.tasks.Wait()
	return err
}

// readHelloFrom reads how a connection between nodes opens (one byte for what
// it carries, and a length-prefixed hello whose field 2 is the node id) and
// gives its bytes and the id.
func readHelloFrom(c io.Reader) (hello []byte, id string, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, "", err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > 64<<10 {
		return nil, "", fmt.Errorf("a hello of %d bytes", n)
	}
	hello = append(head, make([]byte, n)...)
	if _, err := io.ReadFull(c, hello[5:]); err != nil {
		return nil, "", err
	}
	for b := hello[5:]; len(b) > 0; {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil, "", protowire.ParseError(tag)
		}
		b = b[tag:]
		if num == 2 && typ == protowire.BytesType {
			v, n := protowire.ConsumeString(b)
			if n < 0 {
				return nil, "", protowire.ParseError(n)
			}
			return hello, v, nil
		}
		skip := protowire.ConsumeFieldValue(num, typ, b)
		if skip < 0 {
			return nil, "", protowire.ParseError(skip)
		}
		b = b[skip:]
	}
	return nil, "", errors.New("a hello without a node id")
}
