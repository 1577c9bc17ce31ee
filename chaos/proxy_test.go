package chaos

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// wire is two nodes behind proxies: what one sends comes out at the other.
type wire struct {
	t        *testing.T
	p        *proxies
	accepted chan net.Conn // at node 2
	there    net.Conn      // node 1's end
	here     net.Conn      // node 2's end
}

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{t: t, accepted: make(chan net.Conn, 4)}
	var listen, upstream []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		upstream, listen = append(upstream, l.Addr().String()), append(listen, "127.0.0.1:0")
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.accepted <- c
			}
		}()
	}
	var err error
	if w.p, err = newProxies(listen, upstream, []*Node{{ID: "n1"}, {ID: "n2"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.p.Close() })
	return w
}

// connect has node 1 dial node 2 and say who it is.
func (w *wire) connect() {
	w.t.Helper()
	c, err := net.Dial("tcp", w.p.listeners[1].Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "cluster")
	body = protowire.AppendString(protowire.AppendTag(body, 2, protowire.BytesType), "n1")
	frame := append(binary.BigEndian.AppendUint32([]byte{'R'}, uint32(len(body))), body...)
	if _, err := c.Write(frame); err != nil {
		w.t.Fatal(err)
	}
	w.there = c
	select {
	case w.here = <-w.accepted:
		w.t.Cleanup(func() { w.here.Close() })
		hello := make([]byte, len(frame))
		if _, err := io.ReadFull(w.here, hello); err != nil || string(hello) != string(frame) {
			w.t.Fatalf("the hello came as %q: %v", hello, err)
		}
	case <-time.After(5 * time.Second):
		w.t.Fatal("no connection came through")
	}
}

// arrives tells whether a byte gets from one end to the other in time.
func arrives(t *testing.T, from, to net.Conn, within time.Duration) bool {
	t.Helper()
	if _, err := from.Write([]byte("x")); err != nil {
		return false
	}
	_ = to.SetReadDeadline(time.Now().Add(within))
	_, err := to.Read(make([]byte, 1))
	return err == nil
}

// short is how long nothing must come through a cut link.
const short = 100 * time.Millisecond

// TestACutLinkCarriesNothing: each way by itself, counted, and delivered when
// the cut ends, as TCP does.
func TestACutLinkCarriesNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.connect()
	if !arrives(t, w.there, w.here, 5*time.Second) || !arrives(t, w.here, w.there, 5*time.Second) {
		t.Fatal("nothing gets through an open link")
	}
	if err := w.p.Cut(0, 1); err != nil {
		t.Fatal(err)
	}
	if arrives(t, w.there, w.here, short) {
		t.Error("a byte got through the cut")
	}
	if !arrives(t, w.here, w.there, 5*time.Second) {
		t.Error("the other way is cut, too")
	}
	if n, _, _ := w.p.Stopped(); n != 1 {
		t.Errorf("%d bytes counted as held, 1 was", n)
	}
	if err := w.p.Heal(); err != nil {
		t.Fatal(err)
	}
	_ = w.here.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := w.here.Read(make([]byte, 1)); err != nil {
		t.Errorf("what was held did not come after the cut: %v", err)
	}
}

// TestACutLinkConnectsNobody: no connection comes about over a link that is cut
// either way.
func TestACutLinkConnectsNobody(t *testing.T) {
	t.Parallel()
	for _, cut := range [][2]int{{0, 1}, {1, 0}} {
		w := newWire(t)
		_ = w.p.Cut(cut[0], cut[1])
		c, err := net.Dial("tcp", w.p.listeners[1].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		body := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "n1")
		_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{'R'}, uint32(len(body))), body...))
		select {
		case <-w.accepted:
			t.Errorf("a connection came about over the cut %v", cut)
		case <-time.After(short):
		}
	}
}

func TestADelayedLinkIsLate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.connect()
	w.p.Slow(2 * short)
	began := time.Now()
	if !arrives(t, w.there, w.here, 5*time.Second) {
		t.Fatal("nothing came")
	}
	if d := time.Since(began); d < 2*short {
		t.Errorf("a byte took %v over a link that takes %v", d, 2*short)
	}
}

func TestAResetEndsConnections(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.connect()
	if n := w.p.Reset(0); n == 0 {
		t.Fatal("no connection was reset")
	}
	for _, c := range []net.Conn{w.there, w.here} {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || err.(interface{ Error() string }) != nil && isTimeout(err) {
			t.Errorf("a connection outlived the reset: %v", err)
		}
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
