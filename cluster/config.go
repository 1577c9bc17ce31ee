// Package cluster is agreement: a Node proposes commands, forwards them to the
// leader, applies what the log decides, and answers settled outcomes from its
// own memory. It stands on hashicorp/raft; docs/ARCHITECTURE.md tells why each
// workaround is there.
package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"sort"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// Member is one voter of the first configuration.
type Member struct {
	ID      string `json:"id"`      // --node-id
	Address string `json:"address"` // host:port of its inter-node port, as others reach it
}

// Config is what a node is opened with. It is validated once, by Open, and not
// changed after.
type Config struct {
	NodeID  string
	DataDir string   // empty: everything in memory
	Members []Member // the same on all nodes, self included; empty: a cluster of one

	Listener      net.Listener // the bound inter-node port; Close closes it
	PeerAdvertise string       // host:port others reach it at; empty: the listener's address
	HTTPAdvertise string       // base URL that clients reach the HTTP API at

	Multiplier        int    // 1 to 10, times the base timeouts of raft; 0: 2
	SnapshotThreshold uint64 // log entries between snapshots; 0: 32,768

	// LogStore is where the log is kept in DataDir: LogStoreBolt or LogStoreWAL;
	// empty: LogStoreBolt. The one of the first start stays.
	LogStore string

	Version string
	Logger  *slog.Logger          // nil: discard
	Metrics prometheus.Registerer // nil: none

	// OnHalt is called once, on its own goroutine, when the node must not go
	// on: the process prints the error and exits with its code. Required.
	OnHalt func(*HaltError)

	// Wall is the wall clock, which somebody may set; nil: time.Now. How long
	// things take is read from the monotonic clock alone.
	Wall func() time.Time

	Rand io.Reader // nil: crypto/rand

	wrapLogs      func(raft.LogStore) raft.LogStore // tests put a slow or failing store here
	snapshotEvery time.Duration                     // tests take snapshots sooner; 0: 15 s
	disk          *memoryDisk                       // without DataDir: what is kept over a restart; nil: nothing

	walSegment int // bytes of a log segment; tests have small ones; 0: walSegmentSize

	diskStall time.Duration // tests hold the log up for longer; 0: diskStall

	// onApplied is told the state hash after each entry; nil but in tests.
	onApplied func(index, stateHash uint64)

	// dial opens inter-node connections; nil: TCP. The simulation has its own.
	dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Values of Config.LogStore.
const (
	LogStoreBolt = "bolt" // in raft.db, beside term and vote
	LogStoreWAL  = "wal"  // in segment files, half the syncs; term and vote in raft.db
)

// Exit codes of a node that stops itself.
const (
	ExitHalted  = 70 // damage, an unknown entry, a diverged state
	ExitStalled = 71 // the disk does not answer
	ExitRefused = 78 // refused to start: empty or foreign data, bad configuration
)

// HaltError is why a node may not start or go on: one sentence, and the exit
// code of the process.
type HaltError struct {
	ExitCode int
	Err      error
}

func (e *HaltError) Error() string { return e.Err.Error() }
func (e *HaltError) Unwrap() error { return e.Err }

func refusef(format string, args ...any) error {
	return &HaltError{ExitRefused, fmt.Errorf(format, args...)}
}

func haltf(format string, args ...any) *HaltError {
	return &HaltError{ExitHalted, fmt.Errorf(format, args...)}
}

var nodeIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// validated gives c with its defaults filled in, or what is wrong with it.
func (c Config) validated() (Config, error) {
	if !nodeIDPattern.MatchString(c.NodeID) {
		return c, refusef("node id %q: use 1 to 63 of A-Z a-z 0-9 . _ - (set --node-id)", c.NodeID)
	}
	if c.Listener == nil {
		return c, errors.New("cluster: Config.Listener is nil")
	}
	if c.OnHalt == nil {
		return c, errors.New("cluster: Config.OnHalt is nil")
	}
	if c.PeerAdvertise == "" {
		c.PeerAdvertise = c.Listener.Addr().String()
	}
	host, port, err := net.SplitHostPort(c.PeerAdvertise)
	if err != nil {
		return c, refusef("peer address %q is not host:port (set --peer-advertise)", c.PeerAdvertise)
	}
	if ip := net.ParseIP(host); port == "0" || host == "" || (ip != nil && ip.IsUnspecified()) {
		return c, refusef("peer address %q is not one that other nodes can reach: set --peer-advertise host:port", c.PeerAdvertise)
	}
	if len(c.Members) == 0 {
		c.Members = []Member{{c.NodeID, c.PeerAdvertise}}
	}
	c.Members = append([]Member(nil), c.Members...)
	sort.Slice(c.Members, func(i, j int) bool { return c.Members[i].ID < c.Members[j].ID })
	self := false
	ids, addrs := map[string]bool{}, map[string]bool{}
	for _, m := range c.Members {
		if !nodeIDPattern.MatchString(m.ID) || ids[m.ID] {
			return c, refusef("cluster list: node id %q is malformed or there twice", m.ID)
		}
		if _, _, err := net.SplitHostPort(m.Address); err != nil || addrs[m.Address] {
			return c, refusef("cluster list: address %q of %s is not host:port or there twice", m.Address, m.ID)
		}
		ids[m.ID], addrs[m.Address] = true, true
		if m.ID == c.NodeID {
			self = true
			if m.Address != c.PeerAdvertise {
				return c, refusef("cluster list has %s at %s, but this node advertises %s: make --cluster and --peer-advertise agree", m.ID, m.Address, c.PeerAdvertise)
			}
		}
	}
	if !self {
		return c, refusef("cluster list does not name this node (%s): add %s=%s", c.NodeID, c.NodeID, c.PeerAdvertise)
	}
	switch c.LogStore {
	case "":
		c.LogStore = LogStoreBolt
	case LogStoreBolt, LogStoreWAL:
	default:
		return c, refusef("log store %q: use bolt or wal (set --log-store)", c.LogStore)
	}
	if c.Multiplier == 0 {
		c.Multiplier = 2
	}
	if c.Multiplier < 1 || c.Multiplier > 10 {
		return c, refusef("raft multiplier %d: use 1 to 10", c.Multiplier)
	}
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = 32_768
	}
	if c.diskStall == 0 {
		c.diskStall = diskStall
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	return c, nil
}

// wrapped gives the store that tests want in the place of s.
func (c Config) wrapped(s raft.LogStore) raft.LogStore {
	if c.wrapLogs == nil {
		return s
	}
	return c.wrapLogs(s)
}

func (c Config) openIdentity() (*identityStore, error) {
	if c.DataDir == "" && c.disk != nil && c.disk.identity != nil {
		return c.disk.identity, nil
	}
	logStore := c.LogStore
	if logStore == LogStoreBolt {
		logStore = "" // as earlier versions wrote it
	}
	id, err := openIdentity(c.DataDir, c.NodeID, logStore, c.Members, c.Rand)
	if err == nil && c.disk != nil {
		c.disk.identity = id
	}
	return id, err
}
