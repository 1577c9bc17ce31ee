package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

func TestWholeLifeThroughEveryNode(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	for i, n := range c.nodes {
		key := fmt.Sprintf("life-%08d", i)
		r := settled(t, n, key)
		for _, other := range c.nodes {
			got, d := decide(t, other, reserveCmd(key))
			if got.Outcome != fsm.OutcomeReplayed || string(got.Record.Response) != string(r.Record.Response) {
				t.Fatalf("%s answers %v %s for a key settled on %s", other.ID(), got.Outcome, got.Code, n.ID())
			}
			if d.Index == 0 || d.Time == 0 {
				t.Fatalf("decision without index or time: %+v", d)
			}
		}
	}
	c.agree()
}

// TestB41_B61_OneGrantAKey has many clients on all nodes reserve the same keys
// at once, with the leader crashing in the middle.
func TestB41_B42_B61_OneGrantAKey(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	const keys, clients = 60, 16
	leader := c.leader()
	var mu sync.Mutex
	grants := map[string]map[uint64]bool{}
	var asked sync.WaitGroup
	crash := make(chan struct{})
	survivors := []*Node{}
	for i, n := range c.nodes {
		if i != leader {
			survivors = append(survivors, n)
		}
	}
	for i := range clients {
		n := survivors[i%len(survivors)]
		asked.Add(1)
		go func() {
			defer asked.Done()
			for k := range keys {
				if k == keys/3 && i == 0 {
					close(crash)
				}
				key := fmt.Sprintf("race-%06d", k)
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				d, err := n.Decide(ctx, []*fsm.Command{reserveCmd(key)}, 0)
				cancel()
				if err != nil {
					t.Errorf("reserve on %s: %v", n.ID(), err)
					return
				}
				r := d.Results[0]
				switch {
				case r.Outcome == fsm.OutcomeReserved:
					mu.Lock()
					if grants[key] == nil {
						grants[key] = map[uint64]bool{}
					}
					grants[key][r.Record.Token] = true
					mu.Unlock()
				case r.Code != idem.CodeInFlight:
					t.Errorf("a loser got %v %s", r.Outcome, r.Code)
				}
			}
		}()
	}
	<-crash
	c.crash(leader)
	asked.Wait()
	for k := range keys {
		if g := grants[fmt.Sprintf("race-%06d", k)]; len(g) != 1 {
			t.Errorf("key %d was granted %d times", k, len(g))
		}
	}
	c.agree()
}

func TestAListIsOneEntry(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	for i, n := range c.nodes {
		_, before := decide(t, n, reserveCmd(fmt.Sprintf("before-%08d", i)))
		var cmds []*fsm.Command
		for k := range 100 {
			cmds = append(cmds, reserveCmd(fmt.Sprintf("list-%04d-%04d", i, k)))
		}
		d, err := n.Decide(t.Context(), cmds, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d.Index != before.Index+1 {
			t.Errorf("on %s a list of 100 took %d entries", n.ID(), d.Index-before.Index)
		}
		for k, r := range d.Results {
			if r.Outcome != fsm.OutcomeReserved || r.Record.Key != cmds[k].Key {
				t.Fatalf("result %d: %v %s %v", k, r.Outcome, r.Code, r.Record)
			}
		}
	}
}

// TestALargeListTakesAsManyEntriesAsItsBytes splits by size and keeps order.
func TestALargeListTakesAsManyEntriesAsItsBytes(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 1, "", nil)
	n := c.nodes[0]
	_, before := decide(t, n, reserveCmd("before-large"))
	var cmds []*fsm.Command
	for k := range 12 {
		x := reserveCmd(fmt.Sprintf("large-%04d", k))
		x.CorrelationId = string(make([]byte, 100<<10))
		cmds = append(cmds, x)
	}
	d, err := n.Decide(t.Context(), cmds, 0)
	if err != nil {
		t.Fatal(err)
	}
	if took := d.Index - before.Index; took != 3 {
		t.Errorf("1.2 MB took %d entries, want 3", took)
	}
	if len(d.Results) != len(cmds) {
		t.Fatalf("%d results for %d commands", len(d.Results), len(cmds))
	}
}

// TestWaitingCommandsShareAnEntry holds the log up under 64 reserves: one entry
// is in flight, everything else goes into the next.
func TestWaitingCommandsShareAnEntry(t *testing.T) {
	t.Parallel()
	g := &gate{}
	c := newTrio(t, 1, "", func(cfg *Config) {
		cfg.wrapLogs = func(s raft.LogStore) raft.LogStore { return gatedLogs{s, g} }
	})
	n := c.nodes[0]
	_, before := decide(t, n, reserveCmd("before-held"))
	g.shut()
	var done sync.WaitGroup
	var mu sync.Mutex
	highest := uint64(0)
	ask := func(i int) {
		defer done.Done()
		_, d := decide(t, n, reserveCmd(fmt.Sprintf("held-%06d", i)))
		mu.Lock()
		highest = max(highest, d.Index)
		mu.Unlock()
	}
	done.Add(64)
	go ask(0)
	c.eventually("the first entry is held up", func() error {
		if g.held.Load() == 0 {
			return errors.New("nothing is")
		}
		return nil
	})
	for i := 1; i < 64; i++ {
		go ask(i)
	}
	c.eventually("the others wait", func() error {
		if w := n.batch.queue.waiting(); w != 63 {
			return fmt.Errorf("%d do", w)
		}
		return nil
	})
	g.open()
	done.Wait()
	if took := highest - before.Index; took > 2 {
		t.Errorf("64 reserves took %d entries, want at most 2", took)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	g := &gate{}
	c := newTrio(t, 1, "", func(cfg *Config) {
		cfg.wrapLogs = func(s raft.LogStore) raft.LogStore { return gatedLogs{s, g} }
	})
	n := c.nodes[0]
	decide(t, n, reserveCmd("before-full"))
	g.shut()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	list := func(name string, size int) []*fsm.Command {
		var cmds []*fsm.Command
		for i := range size {
			cmds = append(cmds, reserveCmd(fmt.Sprintf("%s-%08d", name, i)))
		}
		return cmds
	}
	done.Add(1)
	go func() { defer done.Done(); _, _ = n.Decide(ctx, list("first", 1), 0) }()
	c.eventually("an entry is held up", func() error {
		if g.held.Load() == 0 {
			return errors.New("none is")
		}
		return nil
	})
	for i := range 4 {
		done.Add(1)
		go func() { defer done.Done(); _, _ = n.Decide(ctx, list(fmt.Sprint("fill", i), 1000), 0) }()
	}
	c.eventually("the queue is almost full", func() error {
		if w := n.batch.queue.waiting(); w != 4000 {
			return fmt.Errorf("%d wait", w)
		}
		return nil
	})
	var e *idem.Error
	if _, err := n.Decide(ctx, list("over", 97), 0); !errors.As(err, &e) || e.Code != idem.CodeOverloaded || e.Applied != idem.AppliedNo || e.RetryAfter <= 0 {
		t.Errorf("over the bound: %v, want overloaded, applied no, with a time to retry", err)
	}
	cancel()
	g.open()
	done.Wait()
}

func TestSettledIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	settled(t, c.nodes[0], "memory-key")
	c.agree()
	for _, n := range c.nodes {
		entries, forwarded := n.entries.Load(), n.forwarded.Load()
		r, d := decide(t, n, reserveCmd("memory-key"))
		if r.Outcome != fsm.OutcomeReplayed || !d.Local {
			t.Errorf("%s: %v %s local=%v", n.ID(), r.Outcome, r.Code, d.Local)
		}
		if e, f := n.entries.Load(), n.forwarded.Load(); e != entries || f != forwarded {
			t.Errorf("%s wrote %d entries and forwarded %d for a replay", n.ID(), e-entries, f-forwarded)
		}
	}
}

func TestB66_NoQuorum(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	settled(t, c.nodes[0], "kept-outcome")
	held, _ := decide(t, c.nodes[0], reserveCmd("held-claim"))
	c.agree()
	leader := c.leader()
	for i := range c.nodes {
		if i != leader {
			c.crash(i)
		}
	}
	n := c.nodes[leader]
	c.eventually("the lonely leader steps down", func() error {
		if n.isLeader() {
			return errors.New("still leads")
		}
		return nil
	})
	for _, cmd := range []*fsm.Command{
		reserveCmd("new-intent"), commitCmd("held-claim", held.Record.Token),
		{Op: fsmpb.Op_OP_CANCEL, Namespace: "default", Key: "another-key"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := n.Decide(ctx, []*fsm.Command{cmd}, 0)
		cancel()
		var e *idem.Error
		if !errors.As(err, &e) || e.Code != idem.CodeUnavailable || e.Applied == "" || e.RetryAfter <= 0 {
			t.Errorf("%s without a quorum: %v, want unavailable with what is known", cmd.Op, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := n.Read(ctx, fsm.ReadOptions{Strong: true}, func(*fsm.Machine, fsm.Time) {}); err == nil {
		t.Error("a strong read without a quorum")
	}
	if r, _ := decide(t, n, reserveCmd("kept-outcome")); r.Outcome != fsm.OutcomeReplayed {
		t.Errorf("a settled key without a quorum: %v %s", r.Outcome, r.Code)
	}
}

// TestB37_SameAttemptAfterALeaderChange repeats a reserve whose answer was lost
// on another node, under another leader.
func TestB37_SameAttemptAfterALeaderChange(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	cmd := reserveCmd("lost-answer")
	again := &fsm.Command{Op: cmd.Op, Namespace: cmd.Namespace, Key: cmd.Key, RequestDigest: cmd.RequestDigest, AttemptId: cmd.AttemptId}
	leader := c.leader()
	first, _ := decide(t, c.nodes[leader], cmd)
	c.crash(leader)
	second, _ := decide(t, c.nodes[c.follower()], again)
	if second.Outcome != fsm.OutcomeReserved || !second.Resumed || second.Record.Token != first.Record.Token {
		t.Fatalf("the same attempt got %v %s token %d, had %d", second.Outcome, second.Code, second.Record.Token, first.Record.Token)
	}
}

// TestB39_StopAllStartAll keeps everything over a stop of all nodes.
func TestB39_StopAllStartAll(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, t.TempDir(), nil)
	settled(t, c.nodes[0], "kept-outcome")
	held, _ := decide(t, c.nodes[1], reserveCmd("held-claim"))
	for round := range 2 {
		for i := range c.nodes {
			c.stop(i)
		}
		var started sync.WaitGroup
		for i := range c.nodes {
			started.Add(1)
			go func() {
				defer started.Done()
				if err := c.start(i); err != nil {
					t.Errorf("start again: %v", err)
				}
			}()
		}
		started.Wait()
		if t.Failed() {
			return
		}
		c.waitReady()
		for _, n := range c.nodes {
			if r, _ := decide(t, n, reserveCmd("kept-outcome")); r.Outcome != fsm.OutcomeReplayed {
				t.Errorf("%s: a settled key after the stop: %v %s", n.ID(), r.Outcome, r.Code)
			}
			if r, _ := decide(t, n, reserveCmd("held-claim")); r.Code != idem.CodeInFlight {
				t.Errorf("%s: a held claim after the stop: %v %s", n.ID(), r.Outcome, r.Code)
			}
		}
		r, _ := decide(t, c.nodes[2], reserveCmd(fmt.Sprintf("after-%04d", round)))
		if r.Record.Token <= held.Record.Token {
			t.Errorf("token %d after %d", r.Record.Token, held.Record.Token)
		}
		held.Record = &fsm.Record{Token: r.Record.Token}
		c.agree()
	}
}
