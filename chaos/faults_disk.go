package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var diskFaults = []*Fault{
	{Name: "powercut", About: "power lost under one node: what it did not sync is gone", Root: true, Needs: disks, Inject: powerCut},
	{Name: "powercut-two", About: "power lost under two nodes at once", Root: true, Needs: disks, Fails: true, Inject: powerCutTwo},
	{Name: "powercut-all", About: "power lost under all nodes at once", Root: true, Needs: disks, Fails: true, Inject: powerCutAll},
	{Name: "diskfull", About: "no space left for one node", Root: true, Needs: disks, Inject: diskFull},
	{Name: "diskhang", About: "one node's disk does not answer (fsfreeze)", Root: true, Needs: disks, Inject: diskHang},
	{Name: "diskreadonly", About: "one node's disk turns read-only after an error", Root: true, Needs: disks, Inject: diskReadOnly},
	{Name: "syncfails", About: "fdatasync of one node fails with EIO (strace)", Root: true, Inject: syncFails},
	{Name: "syncslow", About: "fdatasync of one node takes 200 ms more (strace)", Root: true, Inject: syncSlow},
	{Name: "synclies", About: "fdatasync of one node does nothing and says yes, then its power is lost", Root: true, Needs: disks, Inject: syncLies},
}

// revive starts n again if its fault has ended it, and says with what code.
func (r *rig) revive(n *Node) (string, error) {
	if n.running() {
		return "it went on", nil
	}
	code := n.process().cmd.ProcessState.ExitCode()
	return fmt.Sprintf("it ended with %d", code), r.nodes.start(n)
}

// cutPower takes the power from victims, and brings it back with the nodes
// down. It gives when it struck.
func (r *rig) cutPower(victims []*Node) (struck int64, err error) {
	name := fmt.Sprintf("canary%d", time.Now().UnixNano()%1e9)
	for _, n := range victims {
		if err := n.disk.canary(name); err != nil {
			return 0, err
		}
	}
	struck = r.history.now()
	for _, n := range victims {
		if err := n.disk.powerCut(); err != nil {
			return 0, err
		}
	}
	// The machine stops with its power: nothing may run on without a disk.
	for _, n := range victims {
		_ = n.process().signal(syscall.SIGKILL)
	}
	lost := 0
	for _, n := range victims {
		n.kill()
		if err := n.disk.powerOn(); err != nil {
			return 0, err
		}
		bytes, err := n.disk.lost(name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", n.ID, err)
		}
		lost += bytes
		n.lostBytes = bytes
	}
	if lost == 0 {
		return 0, errors.New("no byte was lost")
	}
	return struck, nil
}

func (r *rig) powerFault(victims []*Node, leads bool, target string, rng *rand.Rand) (*injured, error) {
	struck, err := r.cutPower(victims)
	if err != nil {
		return nil, err
	}
	return &injured{
		struck: struck,
		target: target, leader: leads, hold: between(rng, 50*time.Millisecond, time.Second),
		heal: func(context.Context) (string, error) {
			lost := 0
			for _, n := range victims {
				lost += n.lostBytes
				if err := r.nodes.start(n); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("%d unsynced bytes lost, synced ones kept", lost), nil
		},
	}, nil
}

func powerCut(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	return r.powerFault([]*Node{n}, leads, n.ID, rng)
}

func powerCutTwo(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	victims := []*Node{n}
	if len(r.nodes.All) > 1 {
		m := r.nodes.All[(r.place(n)+1+rng.IntN(len(r.nodes.All)-1))%len(r.nodes.All)]
		victims = append(victims, m)
		leads = leads || m == r.nodes.leader(ctx)
	}
	var names []string
	for _, n := range victims {
		names = append(names, n.ID)
	}
	return r.powerFault(victims, leads, strings.Join(names, "+"), rng)
}

func powerCutAll(_ context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	return r.powerFault(r.nodes.All, true, "all", rng)
}

func diskFull(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	complaints := func() int {
		log, _ := os.ReadFile(n.Log)
		return strings.Count(string(log), "no space left on device")
	}
	before := complaints()
	bytes, err := n.disk.fill()
	if err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 4*time.Second, 8*time.Second),
		heal: func(context.Context) (string, error) {
			full := !n.disk.writable()
			if err := n.disk.empty(); err != nil {
				return "", err
			}
			fate, err := r.revive(n)
			if !full {
				return "", err
			}
			return fmt.Sprintf("%d MiB filled, no write of ours went through, it complained %d times; %s", bytes>>20, complaints()-before, fate), err
		},
	}, nil
}

func diskHang(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	if err := n.disk.freeze(); err != nil {
		return nil, err
	}
	stuck := make(chan time.Duration, 1)
	began := time.Now()
	go func() { // a write of ours, which must wait as the node's do
		n.disk.writable()
		stuck <- time.Since(began)
	}()
	hold := between(rng, 2*time.Second, 6*time.Second)
	return &injured{
		target: n.ID, leader: leads, hold: hold,
		heal: func(context.Context) (string, error) {
			if err := n.disk.thaw(); err != nil {
				return "", err
			}
			waited := <-stuck
			// A node that leaves because its disk hangs can end only now.
			p := n.process()
			p.exit(500 * time.Millisecond)
			fate, err := r.revive(n)
			if waited < hold/2 {
				return "", err
			}
			return fmt.Sprintf("a write waited %.1f s; %s", waited.Seconds(), fate), err
		},
	}, nil
}

func diskReadOnly(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	if err := n.disk.readOnly(); err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, time.Second, 4*time.Second),
		heal: func(context.Context) (string, error) {
			refused := !n.disk.writable()
			fate := "it went on"
			if !n.running() {
				fate = fmt.Sprintf("it ended with %d", n.process().cmd.ProcessState.ExitCode())
			}
			n.kill()
			if err := n.disk.repair(); err != nil {
				return "", err
			}
			if !refused {
				return "", r.nodes.start(n)
			}
			return "no write went through; " + fate, r.nodes.start(n)
		},
	}, nil
}

// tamper has strace change what syncs of n do, until it is stopped.
func (r *rig) tamper(n *Node, inject string) (t *tampering, err error) {
	log := filepath.Join(r.dir, n.ID+".strace")
	_ = os.Remove(log)
	p, err := startProcess(filepath.Join(r.dir, "strace.log"), nil,
		"strace", "-f", "-q", "-o", log, "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:"+inject, "-p", fmt.Sprint(n.process().pid()))
	if err != nil {
		return nil, err
	}
	return &tampering{p, log}, nil
}

// tampering is a strace that changes what syncs of a node do.
type tampering struct {
	p   *process
	log string
}

// times gives how many syncs were tampered with so far.
func (t *tampering) times() (int, error) {
	b, err := os.ReadFile(t.log)
	return bytes.Count(b, []byte("INJECTED")) + bytes.Count(b, []byte("DELAYED")), err
}

// bite waits until a sync was tampered with: a node that has just come back, or
// that the leader has lost patience with, may sync nothing for seconds.
func (t *tampering) bite(ctx context.Context) {
	for end := time.Now().Add(biteTime); time.Now().Before(end) && ctx.Err() == nil; {
		if n, err := t.times(); n > 0 || err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond) // between two looks
	}
}

const biteTime = 12 * time.Second

// stop ends it, and gives how many syncs it changed.
func (t *tampering) stop() (int, error) {
	_ = t.p.signal(syscall.SIGINT)
	if _, ended := t.p.exit(5 * time.Second); !ended {
		t.p.kill()
	}
	return t.times()
}

func (r *rig) syncFault(ctx context.Context, rng *rand.Rand, inject, what string) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	t, err := r.tamper(n, inject)
	if err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 2*time.Second, 4*time.Second),
		heal: func(ctx context.Context) (string, error) {
			t.bite(ctx)
			times, err := t.stop()
			if err != nil {
				return "", err
			}
			fate, err := r.revive(n)
			if times == 0 {
				return "", err
			}
			return fmt.Sprintf("%d syncs %s; %s", times, what, fate), err
		},
	}, nil
}

func syncFails(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	return r.syncFault(ctx, rng, "error=EIO", "failed with EIO")
}

func syncSlow(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	return r.syncFault(ctx, rng, "delay_enter=200000", "took 200 ms more")
}

// syncLies is a disk whose cache says yes and is lost with the power. The other
// nodes have what this one loses.
func syncLies(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	t, err := r.tamper(n, "retval=0")
	if err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 2*time.Second, 4*time.Second),
		heal: func(ctx context.Context) (string, error) {
			t.bite(ctx)
			// Power first: strace lets the node sync again when it leaves.
			_, err := r.cutPower([]*Node{n})
			times, stopped := t.stop()
			if err := errors.Join(err, stopped); err != nil {
				return "", err
			}
			if times == 0 {
				return "", r.nodes.start(n)
			}
			return fmt.Sprintf("%d syncs did nothing, %d bytes of a canary lost", times, n.lostBytes), r.nodes.start(n)
		},
	}, nil
}
