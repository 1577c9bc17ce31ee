package cluster

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// crashStore ends the goroutine that calls it at a chosen call, before or after
// the call took effect, as a power cut would; from then on nothing is written.
// raft's goroutines end cleanly that way, and the node is opened anew on what
// the disk has.
type crashStore struct {
	raft.LogStore
	raft.StableStore
	raft.SnapshotStore
	left  atomic.Int64 // calls until the crash; negative: none is planned
	after atomic.Bool
	dead  atomic.Bool
}

func (s *crashStore) call(f func() error) error {
	if s.dead.Load() {
		runtime.Goexit()
	}
	n := s.left.Add(-1)
	if n == 0 && !s.after.Load() {
		s.dead.Store(true)
		runtime.Goexit()
	}
	err := f()
	if n == 0 {
		s.dead.Store(true)
		runtime.Goexit()
	}
	return err
}

func (s *crashStore) plan(calls int64, after bool) {
	s.after.Store(after)
	s.left.Store(calls)
}

func (s *crashStore) IsMonotonic() bool {
	m, ok := s.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

func (s *crashStore) StoreLog(l *raft.Log) error {
	return s.call(func() error { return s.LogStore.StoreLog(l) })
}

func (s *crashStore) StoreLogs(l []*raft.Log) error {
	return s.call(func() error { return s.LogStore.StoreLogs(l) })
}

func (s *crashStore) DeleteRange(a, b uint64) error {
	return s.call(func() error { return s.LogStore.DeleteRange(a, b) })
}

func (s *crashStore) Set(k, v []byte) error {
	return s.call(func() error { return s.StableStore.Set(k, v) })
}

func (s *crashStore) SetUint64(k []byte, v uint64) error {
	return s.call(func() error { return s.StableStore.SetUint64(k, v) })
}

// Create implements raft.SnapshotStore: a snapshot may be cut off at its start,
// before it is closed, or after.
func (s *crashStore) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (sink raft.SnapshotSink, err error) {
	err = s.call(func() (err error) { sink, err = s.SnapshotStore.Create(v, index, term, c, ci, t); return err })
	return crashSink{sink, s}, err
}

type crashSink struct {
	raft.SnapshotSink
	store *crashStore
}

func (k crashSink) Close() error { return k.store.call(k.SnapshotSink.Close) }

// simClockOff is how wrong a wall clock gets, either way. No log time can come
// further ahead: it is steered by wall clocks, and carried by time that passes.
const simClockOff = 24 * time.Hour

// simNode is one node of the simulation and the disk that outlives it.
type simNode struct {
	id    string
	disk  *memoryDisk
	crash *crashStore
	wal   *simWAL      // nil: the log is in memory as it is
	off   atomic.Int64 // of its wall clock, in nanoseconds
	node  *Node        // nil while it is down
}

// sim is a cluster of the product's own nodes in a synctest bubble.
type sim struct {
	t     *testing.T
	rng   *rand.Rand
	net   *simNet
	nodes []*simNode

	mu       sync.Mutex
	hashes   map[uint64]uint64          // state hash by index, as the first node had it
	acked    map[string]string          // key -> outcome digest of an acknowledged settlement
	granted  map[string]map[uint64]bool // key -> tokens that some call was granted
	freed    map[string]int             // key -> releases that may have been applied
	newest   uint64                     // highest token acknowledged
	pace     time.Duration              // between two calls of a client, at most; faults come at ten times that
	ops      int
	unknowns int
	faults   map[string]int
}

func (s *sim) open(x *simNode) {
	var members []Member
	for _, y := range s.nodes {
		members = append(members, Member{y.id, y.id + ":1"})
	}
	n, err := Open(context.Background(), Config{
		NodeID: x.id, Members: members, Listener: s.net.listen(x.id + ":1"), PeerAdvertise: x.id + ":1",
		HTTPAdvertise: "http://" + x.id, Multiplier: 1, SnapshotThreshold: 200, snapshotEvery: 5 * time.Second,
		OnHalt: func(e *HaltError) { s.t.Errorf("%s halted: %v", x.id, e) },
		Wall:   func() time.Time { return time.Now().Add(time.Duration(x.off.Load())) },
		disk:   x.disk, dial: s.net.dialFrom(x.id + ":1"),
		onApplied: func(index, hash uint64) {
			s.applied(x.id, index, hash)
			_ = x.crash.call(func() error { return nil }) // between one apply and the next
		},
	})
	if err != nil {
		s.t.Errorf("open %s: %v", x.id, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.node = n
}

// applied holds every node's state hash at every index against the others'.
func (s *sim) applied(id string, index, hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.hashes[index]; ok && have != hash {
		s.t.Errorf("%s diverged at index %d", id, index)
	}
	s.hashes[index] = hash
}

// client lives through keys: reserve, then commit, fail or release, with other
// attempts meddling. What it is told is noted, and checked at the end.
func (s *sim) client(ctx context.Context, seed int64) {
	rng := rand.New(rand.NewSource(seed))
	for k := 0; ctx.Err() == nil; k++ {
		key := fmt.Sprintf("sim-%d-%06d", seed%5, k*3+rng.Intn(3)) // clients of one residue share keys
		cmd := &fsm.Command{
			Op: fsmpb.Op_OP_RESERVE, Namespace: "default", Key: key, RequestDigest: "d", LeaseUs: fsm.Micros(time.Hour),
			AttemptId: fmt.Sprintf("attempt-%d-%d", seed, k),
		}
		r, ok := s.decide(ctx, rng, cmd)
		if ok && r.Outcome == fsm.OutcomeReserved {
			s.note(key, r)
			settle := &fsm.Command{Op: fsmpb.Op_OP_COMMIT, Namespace: "default", Key: key, Token: r.Record.Token, OutcomeDigest: "by-" + strconv.FormatUint(r.Record.Token, 10)}
			if rng.Intn(6) == 0 {
				settle = &fsm.Command{Op: fsmpb.Op_OP_RELEASE, Namespace: "default", Key: key, Token: r.Record.Token}
				s.mu.Lock()
				s.freed[key]++
				s.mu.Unlock()
			}
			if r, ok := s.decide(ctx, rng, settle); ok {
				s.settled(key, settle, r)
			}
		}
		sleep(ctx, time.Duration(rng.Int63n(int64(s.pace))))
	}
}

func (s *sim) note(key string, r fsm.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.granted[key] == nil {
		s.granted[key] = map[uint64]bool{}
	}
	s.granted[key][r.Record.Token] = true
	s.newest = max(s.newest, r.Record.Token)
	// Leases are long and nothing re-runs: a second grant needs a release.
	if grants := len(s.granted[key]); grants > 1+s.freed[key] {
		s.t.Errorf("key %s was granted %d times with %d releases", key, grants, s.freed[key])
	}
}

func (s *sim) settled(key string, c *fsm.Command, r fsm.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Op != fsmpb.Op_OP_COMMIT {
		return
	}
	if r.Outcome != fsm.OutcomeCommitted {
		s.t.Errorf("commit of %s by its holder: %v %s", key, r.Outcome, r.Code)
		return
	}
	s.acked[key] = c.OutcomeDigest
}

// decide asks a node that is up, and repeats what is unknown elsewhere with the
// same attempt or token, as a client does.
func (s *sim) decide(ctx context.Context, rng *rand.Rand, c *fsm.Command) (fsm.Result, bool) {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := s.nodes[rng.Intn(len(s.nodes))].node
		s.mu.Unlock()
		if n == nil {
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		call, cancel := context.WithTimeout(ctx, time.Duration(200+rng.Intn(3000))*time.Millisecond)
		d, err := n.Decide(call, []*fsm.Command{cloneCommand(c)}, 0) // its deadline is set anew
		cancel()
		s.mu.Lock()
		s.ops++
		if err != nil {
			s.unknowns++
		}
		s.mu.Unlock()
		if err == nil && d.Results[0].Code != idem.CodeUnavailable {
			return d.Results[0], true
		}
	}
	return fsm.Result{}, false
}

// fault does one thing to the cluster and undoes it after a while.
func (s *sim) fault() {
	x := s.nodes[s.rng.Intn(len(s.nodes))]
	y := s.nodes[s.rng.Intn(len(s.nodes))]
	for y == x {
		y = s.nodes[s.rng.Intn(len(s.nodes))]
	}
	long := time.Duration(100+s.rng.Intn(4000)) * time.Millisecond
	name := []string{"isolate", "one-way", "link", "reset", "crash", "crash-in-store", "stop", "delay", "clock"}[s.rng.Intn(9)]
	s.faults[name]++
	cut := func(a, b *simNode, on bool) { s.net.setCut(a.id+":1", b.id+":1", on) }
	switch name {
	case "isolate":
		for _, on := range []bool{true, false} {
			for _, o := range s.nodes {
				if o != x {
					cut(x, o, on)
					cut(o, x, on)
				}
			}
			if on {
				time.Sleep(long)
			}
		}
	case "one-way":
		cut(x, y, true)
		time.Sleep(long)
		cut(x, y, false)
	case "link":
		cut(x, y, true)
		cut(y, x, true)
		time.Sleep(long)
		cut(x, y, false)
		cut(y, x, false)
	case "reset":
		s.net.reset(x.id+":1", y.id+":1")
	case "delay":
		s.net.mu.Lock()
		s.net.delay = 150 * time.Millisecond
		s.net.mu.Unlock()
		time.Sleep(long)
		s.net.mu.Lock()
		s.net.delay = 2 * time.Millisecond
		s.net.mu.Unlock()
	case "clock":
		x.off.Store(s.rng.Int63n(int64(2*simClockOff)) - int64(simClockOff))
	case "crash-in-store":
		x.crash.plan(int64(1+s.rng.Intn(30)), s.rng.Intn(2) == 0)
		time.Sleep(long)
		x.crash.plan(-1, false)
		fallthrough
	case "crash", "stop":
		s.down(x, name == "stop")
		time.Sleep(long)
		s.up(x)
	}
}

// down ends a node. A crash leaves on the disk what had been written.
func (s *sim) down(x *simNode, graceful bool) {
	s.mu.Lock()
	n := x.node
	s.mu.Unlock()
	if n == nil {
		return // it did not open, and the run has failed for it
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	if !graceful {
		cancel()
	}
	_ = n.Close(ctx)
	cancel()
	s.mu.Lock()
	x.node = nil
	s.mu.Unlock()
}

func (s *sim) up(x *simNode) {
	x.crash.dead.Store(false)
	if x.wal != nil {
		x.wal.reopen(s.t, x.crash.SnapshotStore)
	}
	s.open(x)
}

// start opens three nodes.
func (s *sim) start() {
	for i := range 3 {
		disk := newMemoryDisk()
		crash := &crashStore{LogStore: disk.logs, StableStore: disk.stable, SnapshotStore: disk.snaps}
		crash.left.Store(-1)
		x := &simNode{id: fmt.Sprintf("n%d", i+1), disk: disk, crash: crash}
		if logStoreUnderTest() == LogStoreWAL {
			x.wal = newSimWAL(s.rng.Uint64())
			x.wal.reopen(s.t, disk.snaps)
			crash.LogStore = x.wal
		}
		disk.logs, disk.stable, disk.snaps = crash, crash, crash
		s.nodes = append(s.nodes, x)
	}
	for _, x := range s.nodes {
		s.open(x)
	}
}

// run simulates for d with a fault every few seconds, then checks everything.
func (s *sim) run(d time.Duration) {
	s.start()
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for i := range 10 {
		clients.Add(1)
		seed := int64(i) + 10*s.rng.Int63n(1<<20) // the residue by 5 says which keys are shared
		go func() { defer clients.Done(); s.client(ctx, seed) }()
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(s.rng.Int63n(int64(10 * s.pace))))
		s.fault()
	}
	time.Sleep(10 * time.Second) // all is healed: clients finish what hangs
	cancel()
	clients.Wait()
	s.check()
	s.end()
}

// end stops all nodes, and what their disks have running.
func (s *sim) end() {
	for _, x := range s.nodes {
		s.down(x, false)
	}
	time.Sleep(10 * time.Second) // what was on its way ends
	for _, x := range s.nodes {
		if x.wal != nil {
			x.wal.end()
		}
	}
}

// check holds every node against what was acknowledged.
func (s *sim) check() {
	for _, x := range s.nodes {
		if x.node == nil {
			s.t.Errorf("%s is not open after all is healed", x.id)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, _, err := x.node.Read(ctx, fsm.ReadOptions{Strong: true}, func(m *fsm.Machine, _ fsm.Time) {
			if ahead := m.Now().Sub(fsm.TimeOf(time.Now())); ahead > simClockOff+time.Second {
				s.t.Errorf("%s: log time is %v ahead", x.id, ahead)
			}
			for key, digest := range s.acked {
				if r, ok := m.Record("default", key); !ok {
					s.t.Errorf("%s lost the acknowledged outcome of %s", x.id, key)
				} else if r.OutcomeDigest != digest {
					s.t.Errorf("%s has outcome %q (%v, token %d, version %d) of %s, acknowledged was %q", x.id, r.OutcomeDigest, r.Status, r.Token, r.Version, key, digest)
				}
			}
		})
		cancel()
		if err != nil {
			s.t.Errorf("%s does not serve after all is healed: %v", x.id, err)
		}
	}
}

func cloneCommand(c *fsm.Command) *fsm.Command {
	return &fsm.Command{
		Op: c.Op, Namespace: c.Namespace, Key: c.Key, RequestDigest: c.RequestDigest, LeaseUs: c.LeaseUs,
		AttemptId: c.AttemptId, Token: c.Token, OutcomeDigest: c.OutcomeDigest,
	}
}

// TestSimulation runs the product's own cluster in virtual time under faults:
// cuts, one-way cuts, resets, delays, crashes before and after each store call,
// stops, wrong clocks. ONCED_SIM_SEEDS and ONCED_SIM_MINUTES make it longer,
// ONCED_SIM_PACE_MS slower; ONCED_SIM_FIRST is the first seed.
func TestSimulation(t *testing.T) {
	seeds, minutes := envInt("ONCED_SIM_SEEDS", 2), envInt("ONCED_SIM_MINUTES", 3)
	first := envInt("ONCED_SIM_FIRST", 1)
	pace := time.Duration(envInt("ONCED_SIM_PACE_MS", 300)) * time.Millisecond
	began := time.Now()
	var ops, faults atomic.Int64
	one := func(t *testing.T, seed int) {
		s := &sim{
			t: t, rng: rand.New(rand.NewSource(int64(seed))), net: newSimNet(int64(seed)),
			hashes: map[uint64]uint64{}, acked: map[string]string{}, granted: map[string]map[uint64]bool{},
			freed: map[string]int{}, faults: map[string]int{}, pace: pace,
		}
		s.run(time.Duration(minutes) * time.Minute)
		n := 0
		for _, k := range s.faults {
			n += k
		}
		if len(s.acked) == 0 || n == 0 {
			t.Errorf("nothing was shown: %d acknowledged, %d faults", len(s.acked), n)
		}
		t.Logf("%d operations, %d of them undecided, %d acknowledged outcomes, %d entries, %d messages cut off, faults %v", s.ops, s.unknowns, len(s.acked), len(s.hashes), s.net.dropped, s.faults)
		ops.Add(int64(s.ops))
		faults.Add(int64(n))
	}
	// A bubble has one thread's worth of work: as many run at once as there are
	// cores. The outer test ends when all of them have.
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+seeds; seed++ {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { one(t, seed) })
			})
		}
	})
	took := time.Since(began)
	simulated := time.Duration(seeds*minutes) * time.Minute
	t.Logf("simulated %v in %v (x%.0f): %d operations, %d faults", simulated, took.Round(time.Millisecond), simulated.Seconds()/took.Seconds(), ops.Load(), faults.Load())
}

func envInt(name string, or int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return or
}
