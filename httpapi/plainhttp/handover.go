package plainhttp

import (
	"net"
	"sync"
)

// handover is the listener that net/http accepts from: what comes out of it are
// connections that sent something that is not plain.
type handover struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandover(addr net.Addr) *handover {
	return &handover{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// give hands c over, with what was read of it. When nobody takes it any more it
// is closed.
func (h *handover) give(c net.Conn, read []byte) {
	select {
	case h.conns <- &begun{Conn: c, read: append([]byte(nil), read...)}:
	case <-h.done:
		_ = c.Close()
	}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handover) Addr() net.Addr { return h.addr }

// begun is a connection of which something was read already.
type begun struct {
	net.Conn
	read []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.read) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.read)
	c.read = c.read[n:]
	return n, nil
}

// CloseWrite lets net/http end its side of the connection first.
func (c *begun) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
