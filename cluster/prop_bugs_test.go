package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

// link is the network of one node, which a test can take away.
type link struct {
	net.Listener

	mu    sync.Mutex // guards both
	down  bool
	conns []net.Conn
}

func (l *link) keep(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		c.Close()
		return nil, syscall.ENETUNREACH
	}
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *link) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err = l.keep(c); err == nil {
			return c, nil
		}
	}
}

func (l *link) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return l.keep(c)
}

func (l *link) cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down = down; down {
		for _, c := range l.conns {
			c.Close()
		}
		l.conns = nil
	}
}

// B10: one of three nodes is down and the leader's link goes and comes back.
// Pre-vote must not keep the two that are left from agreeing on a leader
// (hashicorp/raft#605, #606, #609).
func TestB10_LeadersLinkBouncesWithANodeDown(t *testing.T) {
	t.Parallel()
	links := map[string]*link{}
	var mu sync.Mutex // guards links
	c := newTrio(t, 3, "", func(cfg *Config) {
		l := &link{Listener: cfg.Listener}
		mu.Lock()
		defer mu.Unlock()
		links[cfg.NodeID] = l
		cfg.Listener, cfg.dial = l, l.dial
	})
	c.crash(c.follower())
	var worst time.Duration
	for i := range 5 {
		leads := c.leader()
		l := links[c.nodes[leads].ID()]
		l.cut(true)
		c.eventually("the leader has noticed", func() error {
			if c.nodes[leads].isLeader() {
				return errors.New("it still leads")
			}
			return nil
		})
		l.cut(false)
		began := time.Now()
		settled(t, c.up()[i%2], fmt.Sprintf("bounce-%04d", i))
		worst = max(worst, time.Since(began))
	}
	t.Logf("after the link was back, acknowledged within %v at worst", worst.Round(time.Millisecond))
	c.agree()
}

// B13: a strong read while nodes start, replay and elect is refused or sees
// every acknowledged write; never less (consul#2644, hashicorp/raft#603).
func TestB13_StrongReadsWhileStarting(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), nil)
	const keys = 40
	c.fill("old", keys)
	for i := range c.nodes {
		c.crash(i)
	}
	var readers sync.WaitGroup
	var seen, refusals atomic.Int64
	for i := range c.nodes {
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
		n := c.nodes[i]
		readers.Go(func() {
			for ok := 0; ok < 3; {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				_, _, err := n.Read(ctx, fsm.ReadOptions{Strong: true}, func(m *fsm.Machine, _ fsm.Time) {
					for k := range keys {
						key := fmt.Sprintf("old-%06d", k)
						if r, ok := m.Record("default", key); !ok || r.Status != fsm.Committed {
							t.Errorf("%s: a strong read without %s", n.ID(), key)
						}
					}
				})
				cancel()
				var e *idem.Error
				switch {
				case err == nil:
					ok++
					seen.Add(1)
				case errors.As(err, &e) && e.Code == idem.CodeUnavailable && t.Context().Err() == nil:
					refusals.Add(1)
				default:
					t.Errorf("%s: %v", n.ID(), err)
					return
				}
			}
		})
	}
	readers.Wait()
	t.Logf("%d reads saw all, %d were refused", seen.Load(), refusals.Load())
}

// B20: leadership that comes and goes, faster than what follows from it, leaves
// no goroutine behind and no lock held (nomad#6977, vault#8547).
func TestB20_LeadershipFlaps(t *testing.T) { // not parallel: it counts goroutines
	c := newTrio(t, 3, "", nil)
	settled(t, c.nodes[0], "before-the-flaps")
	before := runtime.NumGoroutine()
	flaps := 0
	for i := range 200 {
		c.eventually("leadership moves", func() error { // not before anybody is ready: faster than that
			for _, n := range c.nodes {
				if r := n.raft.Load(); r.State() == raft.Leader {
					err := r.LeadershipTransfer().Error()
					if err == nil {
						flaps++
					}
					return err
				}
			}
			return errNoLeader
		})
		if i%40 == 39 {
			settled(t, c.nodes[i%3], fmt.Sprintf("flap-%04d", i))
		}
	}
	c.waitReady()
	settled(t, c.nodes[0], "after-the-flaps")
	c.agree()
	// Other tests of the package may be ending at the same time: fewer is fine.
	c.eventually("goroutines are back to where they were", func() error {
		if now := runtime.NumGoroutine(); now > before+20 {
			return fmt.Errorf("%d before, %d after %d flaps", before, now, flaps)
		}
		return nil
	})
	t.Logf("%d flaps", flaps)
}

// fullDisk is a log without room while it is full.
type fullDisk struct {
	raft.LogStore
	full *atomic.Bool
}

func (d fullDisk) StoreLogs(logs []*raft.Log) error {
	if d.full.Load() {
		return fmt.Errorf("write raft.db: %w", syscall.ENOSPC)
	}
	return d.LogStore.StoreLogs(logs)
}

// B33: a leader whose disk is full yields, the others serve, and the node is back
// once there is room (vault#3725, etcd#3068). What it failed to write is never
// told as done.
func TestB33_FullDiskOfTheLeader(t *testing.T) {
	t.Parallel()
	full := map[string]*atomic.Bool{"n1": {}, "n2": {}, "n3": {}}
	c := newTrio(t, 3, "", func(cfg *Config) {
		on := full[cfg.NodeID]
		cfg.wrapLogs = func(s raft.LogStore) raft.LogStore { return fullDisk{s, on} }
	})
	was := c.leader()
	settled(t, c.nodes[was], "room-0001")
	full[c.nodes[was].ID()].Store(true)
	began := time.Now()
	settled(t, c.nodes[was], "full-0001") // by way of the next leader
	settled(t, c.nodes[(was+1)%3], "full-0002")
	t.Logf("acknowledged elsewhere %v after the disk was full", time.Since(began).Round(time.Millisecond))
	if now := c.leader(); now == was {
		t.Error("the node with the full disk leads")
	}
	full[c.nodes[was].ID()].Store(false)
	c.waitReady()
	c.agree()
	select {
	case h := <-c.halts:
		t.Errorf("halted: %v", h)
	default:
	}
}
