package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lab is a cluster under a test's own hands.
type lab struct {
	*rig
	t      *testing.T
	caller *Caller
	load   *load
}

// newLab starts n nodes, each on a disk of its own if mkfs is not nil.
func newLab(t *testing.T, n int, mkfs []string) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real nodes for seconds")
	}
	binary, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h, err := NewHistory("")
	if err != nil {
		t.Fatal(err)
	}
	all, fabric, err := loopback(n, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fabric.Close() })
	for _, node := range all {
		if mkfs == nil {
			continue
		}
		d, err := newDisk(filepath.Join(dir, node.ID+".img"), node.Dir, mkfs...)
		if err != nil {
			t.Fatal(err)
		}
		node.disk = d
		t.Cleanup(func() {
			if err := d.remove(); err != nil {
				t.Error(err)
			}
		})
	}
	nodes := newNodes(binary, dir, all)
	t.Cleanup(nodes.killAll)
	if err := nodes.startAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := nodes.put(t.Context(), all[0], "/v1/namespaces/orders", policyOf("orders").json()); err != nil {
		t.Fatal(err)
	}
	c := NewCaller(h, callTime)
	t.Cleanup(c.Close)
	return &lab{
		t: t, caller: c, rig: &rig{nodes: nodes, fabric: fabric, history: h, dir: dir},
		load: &load{caller: c, nodes: all, seed: 1},
	}
}

// writing has clients reserve and commit new keys, with large responses, until
// the given function returns.
func (l *lab) writing(until func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var all sync.WaitGroup
	for i := range 8 {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		all.Add(1)
		go func() {
			defer all.Done()
			for ctx.Err() == nil {
				r := &Op{Client: i, NS: "orders", Key: newKey(rng, 1, true), Kind: Reserve, Request: "a|", AttemptID: newAttempt(rng)}
				if l.load.call(ctx, rng, r) != nil || !r.grants() {
					continue
				}
				_ = l.load.call(ctx, rng, &Op{
					Client: i, NS: "orders", Key: r.Key, Kind: Commit, Token: r.Answer.Token, Verdict: "committed",
					Response: strconv.Quote(strings.Repeat(r.Key, 500)),
				})
			}
		}()
	}
	until()
	cancel()
	all.Wait()
}

// kept asks every node for every acknowledged outcome, and checks all calls.
func (l *lab) kept() {
	l.t.Helper()
	n, err := audit(l.t.Context(), l.caller, l.nodes.All, rand.New(rand.NewPCG(1, 1)), 0)
	if err != nil {
		l.t.Fatal(err)
	}
	if n == 0 {
		l.t.Fatal("nothing was acknowledged")
	}
	f := &Findings{Linearizable: true}
	parts := partition(l.history.Ops())
	f.checkLinear(l.t.Context(), parts, Limits{})
	f.checkReplays(parts)
	for _, r := range f.Reasons {
		l.t.Error(r)
	}
	l.t.Logf("%d outcomes replayed by each of %d nodes, %d calls explained", n, len(l.nodes.All), len(l.history.Ops()))
}

// moreAcks waits until n more writes are acknowledged.
func (l *lab) moreAcks(n int) {
	l.t.Helper()
	acks := func() int {
		l.history.opsMu.Lock()
		defer l.history.opsMu.Unlock()
		return len(l.history.acks)
	}
	before := acks()
	soon(l.t, "writes are acknowledged", func() bool { return acks() >= before+n })
}

// size is that of a node's log store.
func (n *Node) size() int64 {
	info, err := os.Stat(filepath.Join(n.data(), "raft.db"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// TestB24_LyingSyncOfAMinority: one node's disk says that it has what it has
// not, and then its power is lost; what was acknowledged is still there.
func TestB24_LyingSyncOfAMinority(t *testing.T) {
	t.Parallel()
	needRoot(t, "mkfs.ext4", "losetup", "xfs_io", "strace")
	l := newLab(t, 3, []string{})
	l.writing(func() {
		for range 2 {
			hurt, err := syncLies(t.Context(), l.rig, rand.New(rand.NewPCG(5, 5)))
			if err != nil {
				t.Error(err)
				return
			}
			l.moreAcks(100)
			proof, err := hurt.heal(t.Context())
			if err != nil || proof == "" {
				t.Errorf("the lie had no effect: %q, %v", proof, err)
				return
			}
			t.Log(hurt.target, proof)
			if err := l.nodes.awaitReady(t.Context(), recoverTime, l.nodes.All...); err != nil {
				t.Error(err)
			}
		}
	})
	l.kept()
}

// TestB31_NoRoomToGrow: a log store that may not grow any more ends the node in
// good words, and loses nothing.
func TestB31_NoRoomToGrow(t *testing.T) {
	t.Parallel()
	needRoot(t, "prlimit")
	l := newLab(t, 1, nil)
	n := l.nodes.All[0]
	l.writing(func() {
		l.moreAcks(40)
		// It may grow between the look and the limit: then writes inside it would
		// fail as on a full disk, which a node outlives.
		for limit := int64(-1); limit != n.size(); {
			limit = n.size()
			if err := command("prlimit", "--pid", strconv.Itoa(n.process().pid()), "--fsize="+strconv.FormatInt(limit, 10)+":"); err != nil {
				t.Error(err)
				return
			}
		}
		if _, ended := n.process().exit(30 * time.Second); !ended {
			t.Error("the node goes on with a log store that cannot grow")
			n.kill()
		}
	})
	log, err := os.ReadFile(n.Log)
	if err != nil {
		t.Fatal(err)
	}
	if code := n.process().cmd.ProcessState.ExitCode(); code != 70 && code != 71 {
		t.Errorf("it ended with %d: %s", code, n.lastWords())
	}
	if strings.Contains(string(log), "goroutine ") {
		t.Error("it ended with a stack trace")
	}
	t.Log(n.lastWords())
	if err := l.nodes.startAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.kept()
}

// TestB23_B32_PowerCutAsTheFileGrows: one node alone, its power lost right when
// its log store has grown, on plain ext4 and on ext4 with fast commits.
func TestB23_B32_PowerCutAsTheFileGrows(t *testing.T) {
	for name, mkfs := range map[string][]string{"plain": {}, "fast_commit": {"-O", "fast_commit"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needRoot(t, "mkfs.ext4", "losetup", "xfs_io")
			l := newLab(t, 1, mkfs)
			n := l.nodes.All[0]
			l.writing(func() {
				for range 3 {
					l.moreAcks(40)
					before := n.size()
					soon(t, "the log store grows", func() bool { return n.size() > before })
					if _, err := l.cutPower(l.nodes.All); err != nil {
						t.Error(err)
						return
					}
					if err := l.nodes.startAll(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
			l.kept()
		})
	}
}
