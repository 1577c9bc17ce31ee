package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
)

// Node is one member of the cluster. Open it, use it from any goroutine, Close
// it once.
type Node struct {
	cfg    Config
	log    *slog.Logger
	id     *identityStore
	store  *storage
	net    *network
	fsm    *adapter
	clock  *clock
	batch  *batcher // leader: into log entries
	relays *batcher // follower: into messages to the leader
	peers  *peers
	count  *replayCounter
	raft   atomic.Pointer[raft.Raft] // nil until the node has joined the others

	leader   leaderWatch
	ready    atomic.Bool   // leader: an entry of this term of its own was applied
	caughtUp atomic.Bool   // applied what the leader had when it was first heard
	target   atomic.Uint64 // that index; 0 not heard yet
	leaving  atomic.Bool   // Close was called
	starting atomic.Value  // string: what the first start waits for
	learned  chan struct{} // the log said something new of the nodes
	draining chan struct{} // closed by Drain

	entries   atomic.Uint64 // log entries proposed here
	commands  atomic.Uint64 // commands in them
	abandoned atomic.Uint64 // entries whose fate was not waited for
	local     atomic.Uint64 // answers from this node's memory
	forwarded atomic.Uint64 // messages sent to a leader

	ctx       context.Context // ends when the node closes
	cancel    context.CancelFunc
	collector *collector // nil without Config.Metrics
	halted    chan struct{}
	haltOnce  sync.Once
	drainOnce sync.Once
	tasks     sync.WaitGroup
}

// Open starts a node. It returns a *HaltError when the node must not start:
// foreign, empty or damaged data, a configuration that cannot be. A first start
// that has to wait for other nodes goes on in the background; a refusal that
// comes later is told through Config.OnHalt.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.validated()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Logger.With("node", cfg.NodeID), halted: make(chan struct{}), learned: make(chan struct{}, 1), draining: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.clock = newClock(time.Now, cfg.Wall)
	n.clock.setVoters(len(cfg.Members))
	n.fsm = newAdapter(n.halt)
	n.fsm.closing = n.ctx.Done()
	n.fsm.onApplied = cfg.onApplied
	n.batch = newBatcher(n, maxEntryCommands, n.leads, n.commit)
	n.relays = newBatcher(n, maxRelayCommands, func() error { return nil }, n.relay)
	n.count = newReplayCounter()
	n.fsm.counted = n.count.served
	n.leader.init()
	n.starting.Store("")
	if cfg.Metrics != nil {
		n.collector = newCollector(n)
	}
	if err := n.open(ctx); err != nil {
		n.cancel()
		if n.net != nil {
			n.net.close()
		}
		n.tasks.Wait()
		if n.store != nil {
			err = errors.Join(err, n.store.Close())
		}
		return nil, firstHalt(err)
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(n.collector)
	}
	return n, nil
}

// firstHalt makes sure that a halt is seen through joined errors.
func firstHalt(err error) error {
	var h *HaltError
	if errors.As(err, &h) {
		return h
	}
	return err
}

func (n *Node) open(ctx context.Context) (err error) {
	if n.id, err = n.cfg.openIdentity(); err != nil {
		return err
	}
	hlog := newHclog(n.log)
	if n.store, err = openStorage(n.cfg, hlog, n.damaged); err != nil {
		return err
	}
	has, err := n.store.hasState()
	if err != nil {
		return haltf("the data directory cannot be read: %w", err)
	}
	if err := checkState(n.id.get(), has); err != nil {
		return err
	}
	n.net = openNetwork(n.cfg, n.id, n.log, hlog)
	n.net.stalls = &n.store.stalls
	n.peers = newPeers(n)
	n.net.serve(n.servePeer)
	if n.id.get().Initialised {
		return n.join()
	}
	// The first round decides at once whether a start is refused.
	round, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	done, err := n.firstStart(round)
	if err != nil || done {
		return err
	}
	n.task(func(ctx context.Context) {
		for !sleep(ctx, 50*time.Millisecond) {
			done, err := n.firstStart(ctx)
			var h *HaltError
			if errors.As(err, &h) {
				n.halt(h)
				return
			}
			if err != nil {
				n.log.Error("first start", "error", err)
				continue
			}
			if done {
				return
			}
		}
	})
	return nil
}

// firstStart asks all other members once and, when all agree, bootstraps this
// node and joins.
func (n *Node) firstStart(ctx context.Context) (done bool, err error) {
	ready, waiting, err := n.net.askAll(ctx, n.cfg.Members)
	if err != nil {
		return false, err
	}
	if !ready {
		why := "first start: waiting for all members"
		for _, w := range waiting {
			why += "; " + w
		}
		if n.starting.Swap(why) != why {
			n.log.Info(why)
		}
		return false, nil
	}
	if err := n.bootstrap(); err != nil {
		return false, err
	}
	n.starting.Store("")
	return true, n.join()
}

// bootstrap writes the first configuration, once; the identity is marked after
// it, so that a crash in between repeats it.
func (n *Node) bootstrap() error {
	var conf raft.Configuration
	for _, m := range n.cfg.Members {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address)})
	}
	if err := n.store.forgetHalfBootstrap(); err != nil {
		return haltf("the data of a half-done first start cannot be cleared: %w", err)
	}
	err := raft.BootstrapCluster(n.raftConfig(), n.store.logs, n.store.stable, n.store.snaps, n.net.raftTransport(), conf)
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return haltf("the first configuration cannot be written: %w", err)
	}
	return n.id.update(func(id *identity) { id.Initialised = true })
}

// join starts raft and everything that runs beside it.
func (n *Node) join() error {
	n.fsm.onLive = n.appliedEntry
	n.fsm.onConfig = n.membersChanged
	n.fsm.onMember = func() {
		select {
		case n.learned <- struct{}{}:
		default:
		}
	}
	var r *raft.Raft
	err := recovered(func() (err error) { // raft panics on a hole in the log
		r, err = raft.NewRaft(n.raftConfig(), n.fsm, n.store.logs, n.store.stable, n.store.snaps, n.net.raftTransport())
		return err
	})
	if err != nil {
		return haltf("raft cannot start on this data: %w", err)
	}
	if conf := r.GetConfiguration(); conf.Error() == nil {
		n.clock.setVoters(voters(conf.Configuration()))
	}
	n.leader.observe(r)
	n.raft.Store(r)
	leadsIn := func(term uint64) bool { return r.State() == raft.Leader && r.CurrentTerm() == term }
	n.net.leadsIn.Store(&leadsIn)
	n.task(n.batch.run)
	for range relaysInFlight {
		n.task(n.relays.run)
	}
	n.task(n.tellCommits)
	n.task(n.lead)
	n.task(n.peers.run)
	n.task(n.announce)
	n.task(n.sweep)
	n.task(n.flushReplays)
	n.task(n.leader.run)
	n.task(n.learn)
	return nil
}

// raftConfig sets raft's timing: multiplier x (heartbeat 200 ms, election 200
// ms, leader lease 150 ms), and keeps enough log behind a snapshot that an
// older snapshot can take over from a damaged one.
func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	m := time.Duration(n.cfg.Multiplier)
	c.LocalID = raft.ServerID(n.cfg.NodeID)
	c.HeartbeatTimeout = m * 200 * time.Millisecond
	c.ElectionTimeout = m * 200 * time.Millisecond
	c.LeaderLeaseTimeout = m * 150 * time.Millisecond
	c.CommitTimeout = 25 * time.Millisecond
	c.SnapshotInterval = 15 * time.Second
	if n.cfg.snapshotEvery > 0 {
		c.SnapshotInterval = n.cfg.snapshotEvery
	}
	c.SnapshotThreshold = n.cfg.SnapshotThreshold
	c.TrailingLogs = 2 * n.cfg.SnapshotThreshold
	if mutant == "shorttrail" {
		c.TrailingLogs = 1
	}
	c.ShutdownOnRemove = false // it would leave the process answering (R30)
	c.NoLegacyTelemetry = true
	c.Logger = newHclog(n.log)
	return c
}

// appliedEntry anchors the clock at an entry that was applied live. A leader's
// own entries are anchored by propose, at the moment of their stamp.
func (n *Node) appliedEntry(stamp fsm.Time) {
	if n.caughtUp.Load() && !n.isLeader() {
		n.clock.applied(stamp, time.Now())
	}
}

// membersChanged follows the membership, and stops this node when it is no
// longer in it: raft's own way (ShutdownOnRemove) would leave a process that
// answers and decides nothing.
func (n *Node) membersChanged(c raft.Configuration) {
	n.clock.setVoters(voters(c))
	for _, s := range c.Servers {
		if string(s.ID) == n.cfg.NodeID {
			return
		}
	}
	n.fsm.stop(&HaltError{ExitRefused, fmt.Errorf("%s was removed from the cluster: add the machine under a new id", n.cfg.NodeID)})
}

// damaged is told of a stored entry that is not what was written. It does not
// return: raft must not go on with such an entry.
func (n *Node) damaged(err error) {
	var h *HaltError
	if !errors.As(err, &h) {
		h = haltf("%w", err)
	}
	n.fsm.stop(h)
	select {}
}

// halt stops the node for good.
func (n *Node) halt(e *HaltError) {
	n.haltOnce.Do(func() {
		close(n.halted)
		n.fsm.halted.Store(true)
		n.log.Error("halted", "error", e.Err, "exit", e.ExitCode)
		go n.cfg.OnHalt(e)
	})
}

func (n *Node) isHalted() bool {
	select {
	case <-n.halted:
		return true
	default:
		return false
	}
}

// task runs f until the node closes.
func (n *Node) task(f func(ctx context.Context)) {
	n.tasks.Add(1)
	go func() {
		defer n.tasks.Done()
		f(n.ctx)
	}()
}

// sleep waits d and tells whether ctx ended first.
func sleep(ctx context.Context, d time.Duration) (ended bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-ctx.Done():
		return true
	}
}

// ID gives the node's id.
func (n *Node) ID() string { return n.cfg.NodeID }

// PeerAddr gives the bound inter-node address.
func (n *Node) PeerAddr() net.Addr { return n.cfg.Listener.Addr() }

// Close stops the node: it adds the replays that it has counted, hands over
// leadership, stops raft and closes the store, in the order that raft needs. ctx
// bounds the first two. Calls that are under way end refused or unknown.
func (n *Node) Close(ctx context.Context) error {
	if n.leaving.Swap(true) {
		return errors.New("cluster: closed twice")
	}
	if n.collector != nil {
		n.cfg.Metrics.Unregister(n.collector)
	}
	r := n.raft.Load()
	if r != nil && !n.isHalted() {
		n.lastReplays(ctx)
		n.handOver(ctx, r)
	}
	n.cancel()
	if r == nil {
		n.net.close()
		n.tasks.Wait()
		if r = n.raft.Load(); r == nil {
			return n.store.Close()
		}
	}
	f := r.Shutdown()
	n.net.close()
	if n.isHalted() {
		return nil // raft may be stuck on the damage; the process is ending
	}
	err := f.Error()
	n.tasks.Wait()
	if cerr := n.store.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close the store: %w", cerr))
	}
	return err
}

// handOver moves leadership away before a stop, so that nobody waits for an
// election. It gives up when ctx ends, there is nobody to take it, or three
// tries fail.
func (n *Node) handOver(ctx context.Context, r *raft.Raft) {
	conf := r.GetConfiguration()
	if conf.Error() != nil || voters(conf.Configuration()) < 2 {
		return
	}
	for range 3 {
		if r.State() != raft.Leader || ctx.Err() != nil {
			return
		}
		if err := await(ctx, r.LeadershipTransfer()); err == nil {
			return
		} else {
			n.log.Warn("leadership could not be handed over", "error", err)
		}
		if sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

func voters(c raft.Configuration) (v int) {
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			v++
		}
	}
	return v
}
