package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// DamageConfig says what DamageRun does.
type DamageConfig struct {
	Binary   string // the onced to run
	Times    int    // data directories to damage, 1 or more
	Seed     uint64
	Dir      string // where data and logs go; must exist
	Progress func(format string, args ...any)
}

// DamageReport is what came of damaged data directories.
type DamageReport struct {
	Seed     uint64
	Times    int
	Harmless int      // the node served, and answered everything as before
	Refused  int      // the node ended with a sentence and the exit code for it
	Silent   []string // it neither ended nor served: no wrong answer, but no sentence either
	Wrong    []string
}

// Pass tells whether each node served rightly or refused, and some refused.
func (r *DamageReport) Pass() bool {
	return len(r.Wrong)+len(r.Silent) == 0 && r.Harmless+r.Refused == r.Times && r.Refused > 0
}

// Verdict is the last line of a run.
func (r *DamageReport) Verdict() string {
	word := "FAIL"
	if r.Pass() {
		word = "PASS"
	}
	return fmt.Sprintf("%s seed=%d damages=%d refused=%d harmless=%d silent=%d wrong=%d", word, r.Seed, r.Times, r.Refused, r.Harmless, len(r.Silent), len(r.Wrong))
}

// The keys of a data directory that is damaged.
const (
	damageKeys    = 48
	damagePending = 8 // of them still claimed
)

// DamageRun makes data directories of a cluster of one, with outcomes that were
// acknowledged, and starts a node on damaged copies of them: bits flipped, or a
// file cut short, at one place each. The node must refuse, or answer everything
// as before. The error is a run that could not be made.
func DamageRun(ctx context.Context, c DamageConfig) (*DamageReport, error) {
	r := &DamageReport{Seed: c.Seed, Times: c.Times}
	workers := min(c.Times, 2*runtime.GOMAXPROCS(0))
	base, err := freeBlock(2 * workers)
	if err != nil {
		return nil, err
	}
	var next, done atomic.Int64
	var reportMu sync.Mutex // guards r
	group, ctx := errgroup.WithContext(ctx)
	for i := range workers {
		group.Go(func() error {
			w, err := newDamager(c, i, base+2*i)
			if err != nil {
				return err
			}
			defer w.close()
			if err := w.fill(ctx); err != nil {
				return err
			}
			for {
				n := next.Add(1)
				if n > int64(c.Times) || ctx.Err() != nil {
					return ctx.Err()
				}
				what, refused, err := w.once(ctx, rand.New(rand.NewPCG(c.Seed, uint64(n))))
				if ctx.Err() != nil {
					return ctx.Err()
				}
				reportMu.Lock()
				switch {
				case errors.Is(err, errSilent):
					r.Silent = append(r.Silent, fmt.Sprintf("damage %d, %s: %v", n, what, err))
				case err != nil:
					r.Wrong = append(r.Wrong, fmt.Sprintf("damage %d, %s: %v", n, what, err))
				case refused:
					r.Refused++
				default:
					r.Harmless++
				}
				if d := done.Add(1); d%100 == 0 {
					c.Progress("%d of %d: %d refused, %d harmless, %d silent, %d wrong", d, c.Times, r.Refused, r.Harmless, len(r.Silent), len(r.Wrong))
				}
				reportMu.Unlock()
			}
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = ErrInterrupted
		}
		return nil, err
	}
	return r, nil
}

// errSilent says that a damaged node neither ended nor served.
var errSilent = errors.New("neither ended nor ready")

// silentTime is after how long that is so.
const silentTime = 20 * time.Second

// damager damages copies of one data directory.
type damager struct {
	nodes  *Nodes
	node   *Node
	caller *Caller
	good   string // the undamaged directory
	rng    *rand.Rand

	asks []*Op             // a duplicate of each key
	want map[string]string // what it is told, by key
}

func newDamager(c DamageConfig, i, port int) (*damager, error) {
	h, err := NewHistory("")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Dir, "d"+strconv.Itoa(i))
	at := func(p int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p)) }
	n := &Node{ID: "n1", HTTP: at(port), Peer: at(port + 1), advertise: at(port + 1), Dir: dir}
	nodes := newNodes(c.Binary, c.Dir, []*Node{n})
	n.Log = filepath.Join(c.Dir, "d"+strconv.Itoa(i)+".log")
	n.args = append(n.args, "--snapshot-threshold", "60")
	return &damager{
		nodes: nodes, node: n, caller: NewCaller(h, 10*time.Second), good: dir + ".good",
		rng: rand.New(rand.NewPCG(c.Seed, 1<<32+uint64(i))), want: map[string]string{},
	}, nil
}

func (d *damager) close() {
	d.nodes.killAll()
	d.caller.Close()
	_ = os.RemoveAll(d.node.Dir)
	_ = os.RemoveAll(d.good)
}

// fill has the node acknowledge outcomes until it has made a snapshot, and
// more behind them, and keeps its directory as a kill leaves it.
func (d *damager) fill(ctx context.Context) error {
	if err := d.nodes.startAll(ctx); err != nil {
		return err
	}
	if err := d.nodes.put(ctx, d.node, "/v1/namespaces/orders", policyOf("orders").json()); err != nil {
		return err
	}
	call := func(o *Op) error {
		if err := d.caller.Do(ctx, d.node, o); err != nil {
			return err
		}
		if !o.acknowledged() {
			return fmt.Errorf("%s", o)
		}
		return nil
	}
	for i := range damageKeys {
		key := newKey(d.rng, d.rng.Uint64(), i%2 == 0)
		o := &Op{NS: "orders", Key: key, Kind: Reserve, Request: "a|", AttemptID: newAttempt(d.rng), Lease: 3600_000}
		if err := call(o); err != nil {
			return err
		}
		if i >= damagePending {
			settle := &Op{NS: "orders", Key: key, Kind: Commit, Token: o.Answer.Token, Verdict: "committed", Response: strconv.Quote(strings.Repeat(key, 1+i))}
			if err := call(settle); err != nil {
				return err
			}
		}
		if i == damageKeys*3/4 {
			if err := d.snapshot(ctx, call, o); err != nil {
				return err
			}
		}
		d.asks = append(d.asks, &Op{NS: "orders", Key: key, Kind: Reserve, Request: "a|", AttemptID: newAttempt(d.rng)})
	}
	told, err := d.ask(ctx)
	if err != nil {
		return err
	}
	d.want = told
	d.node.kill()
	return copyPrivate(d.good, d.node.data())
}

// snapshot waits until there is one, with repeats of a settled call for entries.
func (d *damager) snapshot(ctx context.Context, call func(*Op) error, o *Op) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		for range 20 {
			again := &Op{NS: "orders", Key: o.Key, Kind: Commit, Token: o.Answer.Token, Verdict: "committed", Response: strconv.Quote(strings.Repeat(o.Key, 1+damageKeys*3/4))}
			if err := call(again); err != nil {
				return false, err
			}
		}
		made, _ := filepath.Glob(filepath.Join(d.node.data(), "snapshots", "*", "state.bin"))
		return len(made) > 0, nil
	})
}

// ask gives what a duplicate of every key is told now.
func (d *damager) ask(ctx context.Context) (map[string]string, error) {
	ops := make([]*Op, len(d.asks))
	for i, o := range d.asks {
		ops[i] = o.again()
	}
	if err := d.caller.Batch(ctx, d.node, ops); err != nil {
		return nil, err
	}
	told := map[string]string{}
	for _, o := range ops {
		if o.Fate != Known {
			return nil, errors.New(o.Cause)
		}
		told[o.Key] = o.Answer.Says
		if r := o.Answer.Record; r != nil {
			told[o.Key] += fmt.Sprintf(" a%d v%d %s", r.Attempt, r.Version, r.Text)
		}
	}
	return told, nil
}

// once damages a copy and starts the node on it.
func (d *damager) once(ctx context.Context, rng *rand.Rand) (what string, refused bool, err error) {
	if err := errors.Join(os.RemoveAll(d.node.data()), os.RemoveAll(d.node.Log), copyPrivate(d.node.data(), d.good)); err != nil {
		return "", false, err
	}
	damage := flipBits
	if rng.IntN(4) == 0 {
		damage = truncateFile
	}
	if what, err = damageOne(d.node.data(), damage, rng); err != nil {
		return what, false, err
	}
	defer d.node.kill()
	if err := d.nodes.start(d.node); err != nil {
		return what, false, err
	}
	within, cancel := context.WithTimeout(ctx, silentTime)
	defer cancel()
	err = poll(within, func() (bool, error) {
		if !d.node.running() {
			return true, nil
		}
		_, err := d.nodes.get(within, d.node, "/readyz")
		return err == nil, nil
	})
	if err != nil {
		return what, false, fmt.Errorf("%w after %v: %s", errSilent, silentTime, d.node.lastWords())
	}
	told, err := d.ask(ctx)
	if d.node.running() {
		// It answers, or is about to end by what it has just found.
		if err != nil {
			if _, ended := d.node.process().exit(10 * time.Second); !ended {
				return what, false, fmt.Errorf("it serves, but not all: %w", err)
			}
		}
	}
	if !d.node.running() {
		return what, true, d.refusal()
	}
	for key, want := range d.want {
		if told[key] != want {
			return what, false, fmt.Errorf("%s: told %q, and before the damage %q", key, told[key], want)
		}
	}
	return what, false, nil
}

// refusal checks how the node ended.
func (d *damager) refusal() error {
	code := d.node.process().cmd.ProcessState.ExitCode()
	log, err := os.ReadFile(d.node.Log)
	switch {
	case err != nil:
		return err
	case code != 70 && code != 71 && code != 78:
		return fmt.Errorf("it ended with %d: %s", code, d.node.lastWords())
	case strings.Contains(string(log), "goroutine "):
		return fmt.Errorf("it ended with %d, but a stack trace: %s", code, d.node.lastWords())
	}
	return nil
}

// copyPrivate copies a directory; only the owner may read the copy.
func copyPrivate(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
}
