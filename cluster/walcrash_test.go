package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
)

// crashDisk is a disk in memory whose power can go at any write, sync or
// deletion: sectors that were not synced are then old or new, each by itself.
type crashDisk struct {
	mu    sync.Mutex // guards all below
	rng   *rand.Rand
	files map[string]*crashFile
	ghost map[string]*crashFile // deleted since the last start: a power cut may bring them back
	conf  map[string][]byte     // settings: each Set is whole or did not happen
	left  int                   // operations until the power goes; negative: never
	full  bool                  // there is no room
}

// crashFile is a file as it is and as it surely comes back.
type crashFile struct{ now, synced []byte }

var errPower = errors.New("the power is gone")

// power is a disk from one start to the next. When it is gone the disk does not
// change any more, whatever the old process tries.
type power struct {
	disk *crashDisk
	gone bool
}

// op runs one operation. At the chosen one the power goes, before it or after it.
func (p *power) op(f func() error) error {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	if p.gone {
		return errPower
	}
	p.disk.left--
	if p.disk.left != 0 {
		return f()
	}
	p.gone = true
	if p.disk.rng.IntN(2) == 0 {
		_ = f()
	}
	return errPower
}

// cut takes the power away and leaves what may have been written.
func (p *power) cut() {
	d := p.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	p.gone, d.left = true, -1
	for _, name := range slices.Sorted(maps.Keys(d.ghost)) {
		if d.files[name] == nil && d.rng.IntN(2) == 0 {
			d.files[name] = d.ghost[name]
		}
	}
	clear(d.ghost)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		if f.synced == nil { // it was being made
			if d.rng.IntN(2) == 0 {
				delete(d.files, name)
				continue
			}
			f.synced = f.now[:d.rng.IntN(len(f.now)+1)]
		}
		size := len(f.synced)
		if more := len(f.now) - size; more > 0 {
			size += d.rng.IntN(more + 1)
		}
		b := make([]byte, size)
		copy(b, f.synced)
		for at := 0; at < size; at += walSector {
			if d.rng.IntN(2) == 0 {
				copy(b[at:min(at+walSector, size)], f.now[at:])
			}
		}
		f.now, f.synced = b, slices.Clone(b)
	}
}

func (p *power) isGone() bool {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	return p.gone
}

// kill ends the process and leaves what it wrote.
func (p *power) kill() {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	p.gone = true
}

// ListDir implements types.VFS.
func (p *power) ListDir(string) (names []string, err error) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	return slices.Sorted(maps.Keys(p.disk.files)), nil
}

// Create implements types.VFS as walFiles does: the file is there, durably.
func (p *power) Create(_, name string, size uint64) (types.WritableFile, error) {
	f := &crashFile{now: make([]byte, size)}
	err := p.op(func() error {
		if p.disk.full {
			return syscall.ENOSPC
		}
		if p.disk.files[name] != nil {
			return os.ErrExist
		}
		p.disk.files[name] = f
		return nil
	})
	if err == nil {
		err = p.op(func() error { f.synced = slices.Clone(f.now); return nil })
	}
	return &openFile{p, f}, err
}

// Delete implements types.VFS. A deletion is not synced.
func (p *power) Delete(_, name string) error {
	return p.op(func() error {
		if p.disk.files[name] == nil {
			return os.ErrNotExist
		}
		p.disk.ghost[name] = p.disk.files[name]
		delete(p.disk.files, name)
		return nil
	})
}

// OpenReader implements types.VFS.
func (p *power) OpenReader(_, name string) (types.ReadableFile, error) {
	return p.OpenWriter("", name)
}

// OpenWriter implements types.VFS.
func (p *power) OpenWriter(_, name string) (types.WritableFile, error) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	f := p.disk.files[name]
	if f == nil {
		return nil, os.ErrNotExist
	}
	return &openFile{p, f}, nil
}

type openFile struct {
	p *power
	f *crashFile
}

func (o *openFile) ReadAt(b []byte, at int64) (int, error) {
	o.p.disk.mu.Lock()
	defer o.p.disk.mu.Unlock()
	if at >= int64(len(o.f.now)) {
		return 0, io.EOF
	}
	n := copy(b, o.f.now[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (o *openFile) WriteAt(b []byte, at int64) (int, error) {
	n := len(b)
	err := o.p.op(func() error {
		if o.p.disk.full {
			n = o.p.disk.rng.IntN(n/walSector+1) * walSector
			copy(o.f.now[at:], b[:n])
			return syscall.ENOSPC
		}
		if need := int(at) + len(b); need > len(o.f.now) {
			o.f.now = append(o.f.now, make([]byte, need-len(o.f.now))...)
		}
		copy(o.f.now[at:], b)
		return nil
	})
	return n, err
}

func (o *openFile) Sync() error {
	return o.p.op(func() error { o.f.synced = slices.Clone(o.f.now); return nil })
}

func (o *openFile) Close() error { return nil }

// crashConf is the settings on that disk, as bbolt keeps them.
type crashConf struct {
	raft.StableStore
	p *power
}

func (c crashConf) Set(key, val []byte) error {
	return c.p.op(func() error {
		if c.p.disk.full && c.p.disk.rng.IntN(2) == 0 { // bbolt has free pages, or none
			return syscall.ENOSPC
		}
		c.p.disk.conf[string(key)] = slices.Clone(val)
		return nil
	})
}

func (c crashConf) Get(key []byte) ([]byte, error) {
	c.p.disk.mu.Lock()
	defer c.p.disk.mu.Unlock()
	if v, ok := c.p.disk.conf[string(key)]; ok {
		return v, nil
	}
	return nil, errNotFound
}

// crashLog is a log on a crashDisk, and what has to be in it.
type crashLog struct {
	disk     *crashDisk
	rng      *rand.Rand // of what is done; the disk has its own
	p        *power
	wal      *walStore
	logs     *logStore
	want     []raft.Log // what was acknowledged
	or       []raft.Log // what may be there instead, since the power went
	snapshot uint64
	next     uint64
	term     uint64
	owed     *indexRange // a deletion of the end that failed: raft repeats it
}

func newCrashLog(seed uint64) *crashLog {
	return &crashLog{rng: rand.New(rand.NewPCG(seed, 8)), disk: &crashDisk{rng: rand.New(rand.NewPCG(seed, 7)), files: map[string]*crashFile{}, ghost: map[string]*crashFile{}, conf: map[string][]byte{}, left: -1}, next: 1, term: 1}
}

func (c *crashLog) open() error {
	c.end()
	c.owed = nil
	c.p = &power{disk: c.disk}
	guard := storeGuard{onDamage: func(error) {}}
	w, _, err := openWAL(walConfig{
		dir: "wal", files: c.p, size: 8 << 10, stable: &stableStore{inner: crashConf{p: c.p}, guard: guard},
		newest: func() (uint64, error) { return c.snapshot, nil }, logger: hclog.NewNullLogger(),
	})
	if err != nil {
		return err
	}
	c.wal, c.logs = w, &logStore{inner: w, guard: guard, atOnce: true, newest: func() (uint64, error) { return c.snapshot, nil }}
	return nil
}

// end ends what is left of the old process.
func (c *crashLog) end() {
	if c.wal != nil {
		c.p.kill()
		_ = c.wal.Close()
		c.wal = nil
	}
}

// read gives all that the log holds.
func (c *crashLog) read() ([]raft.Log, error) {
	first, err := c.logs.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := c.logs.LastIndex()
	if err != nil {
		return nil, err
	}
	var all []raft.Log
	for i := first; i > 0 && i <= last; i++ {
		var l raft.Log
		if err := c.logs.read(i, &l); err != nil {
			return nil, fmt.Errorf("entry %d of %d to %d: %w", i, first, last, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// step does one thing of those that raft does. It fails when the power goes.
func (c *crashLog) step(t *testing.T) error {
	rng := c.rng
	n := len(c.want)
	switch k := rng.IntN(20); {
	case k == 0 && n > 1: // a conflicting suffix
		keep := rng.IntN(n)
		c.term++
		c.or = c.want[:keep]
		c.owed = &indexRange{c.want[keep].Index, c.want[n-1].Index}
		if err := c.logs.DeleteRange(c.owed.first, c.owed.last); err != nil {
			return err
		}
		c.owed = nil
		c.want, c.next = c.or, c.want[keep].Index
	case k == 1 && n > 1: // a compaction
		cut := 1 + rng.IntN(n-1)
		c.or = c.want[cut:]
		c.snapshot = max(c.snapshot, c.want[cut-1].Index)
		if err := c.logs.DeleteRange(c.want[0].Index, c.want[cut-1].Index); err != nil {
			return err
		}
		c.want = c.or
	case k == 2: // a snapshot is installed, and raft may not come to delete the log
		c.snapshot = max(c.snapshot, c.next-1) + uint64(1+rng.IntN(50))
		c.next = c.snapshot + 1
		if n > 0 && rng.IntN(2) == 0 {
			c.or = nil
			c.owed = &indexRange{c.want[0].Index, c.want[n-1].Index}
			if err := c.logs.DeleteRange(c.owed.first, c.owed.last); err != nil {
				return err
			}
			c.owed = nil
			c.want = nil
		}
	case k == 3:
		c.wal.writeMark()
	default:
		var batch []*raft.Log
		for range 1 + rng.IntN(5) {
			batch = append(batch, &raft.Log{Index: c.next + uint64(len(batch)), Term: c.term, Data: c.data(t)})
		}
		after := slices.Clone(c.want)
		if n > 0 && c.want[n-1].Index+1 != c.next {
			after = nil // behind a snapshot
		}
		for _, l := range batch {
			after = append(after, *l)
		}
		c.or = after
		if err := c.logs.StoreLogs(batch); err != nil {
			return err
		}
		c.want, c.next = after, c.next+uint64(len(batch))
	}
	c.or = c.want
	return nil
}

func (c *crashLog) data(t *testing.T) []byte {
	size := c.rng.IntN(300)
	if c.rng.IntN(10) == 0 {
		size = 4000
	}
	b := make([]byte, size)
	for i := range b {
		if c.rng.IntN(3) > 0 { // zeros too
			b[i] = byte('a' + c.rng.IntN(26))
		} else {
			b[i] = '0'
		}
	}
	return testEntry(t, string(b))
}

// check holds what the log has against what it must have.
func (c *crashLog) check(t *testing.T, when string) {
	t.Helper()
	got, err := c.read()
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	same := func(a, b []raft.Log) bool {
		return slices.EqualFunc(a, b, func(x, y raft.Log) bool {
			return x.Index == y.Index && x.Term == y.Term && bytes.Equal(x.Data, y.Data)
		})
	}
	switch {
	case same(got, c.want):
	case same(got, c.or), len(got) == 0 && len(c.or) > 0 && c.or[0].Index > 1 && c.or[0].Index == c.snapshot+1:
		// The operation that the power cut off has happened, or the half of it
		// that empties the log behind a snapshot.
		c.want = got
	default:
		t.Fatalf("%s: the log holds %s, want %s or %s", when, span(got), span(c.want), span(c.or))
	}
	c.or, c.next = c.want, c.snapshot+1
	if n := len(c.want); n > 0 {
		c.next = max(c.next, c.want[n-1].Index+1)
	}
}

func span(l []raft.Log) string {
	if len(l) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d to %d", l[0].Index, l[len(l)-1].Index)
}

// The power goes at any operation on the disk, again and again: what was
// acknowledged is there, and nothing else but perhaps what was under way.
func TestWALPowerCuts(t *testing.T) {
	t.Parallel()
	cuts := 0
	for seed := range uint64(crashSeeds) {
		c := newCrashLog(seed)
		if err := c.open(); err != nil {
			t.Fatal(err)
		}
		for round := range 25 {
			c.setLeft(1 + c.rng.IntN(150))
			var err error
			for err == nil {
				err = c.step(t)
			}
			if !errors.Is(err, errPower) && !c.p.isGone() {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
			c.p.cut()
			cuts++
			for tries := 0; ; tries++ { // and it goes while the log is opened
				if tries < 3 && c.rng.IntN(2) == 0 {
					c.setLeft(1 + c.rng.IntN(6))
				}
				err := c.open()
				if err == nil {
					break
				}
				if !errors.Is(err, errPower) {
					t.Fatalf("seed %d, round %d: not opened: %v", seed, round, err)
				}
				c.p.cut()
				cuts++
			}
			c.setLeft(-1)
			c.check(t, fmt.Sprintf("seed %d, round %d", seed, round))
		}
		c.end()
	}
	t.Logf("%d power cuts", cuts)
}

// A full disk refuses, again and again, and nothing is lost; once there is room
// the log goes on. raft-wal itself would not: it forgets to make a new segment.
func TestWALFullDisk(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(crashSeeds) {
		c := newCrashLog(seed + 1000)
		if err := c.open(); err != nil {
			t.Fatal(err)
		}
		for round := range 40 {
			when := fmt.Sprintf("seed %d, round %d", seed, round)
			for range c.rng.IntN(20) {
				if err := c.step(t); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
			}
			c.setFull(true)
			var err error
			for range c.rng.IntN(6) {
				if err = c.step(t); err != nil {
					break
				}
			}
			for range c.rng.IntN(3) { // it stays full
				if err == nil {
					break
				}
				if refused++; !errors.Is(err, syscall.ENOSPC) || errors.Is(err, errDamaged) {
					t.Fatalf("%s: refused with %v", when, err)
				}
				_ = c.wal.DeleteRange(1, 0)
			}
			c.setFull(false)
			if c.owed != nil {
				err = c.logs.DeleteRange(c.owed.first, c.owed.last)
				c.owed, c.want = nil, c.or
			} else {
				err = c.wal.DeleteRange(1, 0)
			}
			if err != nil {
				t.Fatalf("%s: there is room again: %v", when, err)
			}
			if round%5 == 4 {
				if err := c.open(); err != nil {
					t.Fatalf("%s: not opened: %v", when, err)
				}
			}
			c.check(t, when)
		}
		c.end()
	}
	t.Logf("refused %d times", refused)
}

// A deletion of the log's end that a full disk cut off may have happened, and
// raft still counts on that end: nothing is written behind it, and nothing makes
// it vanish before raft repeats the deletion.
func TestWALOwedDeletion(t *testing.T) {
	t.Parallel()
	for seed := range uint64(crashSeeds) {
		for _, then := range []string{"repeats", "appends", "has installed a snapshot"} {
			c := newCrashLog(seed + 2000)
			if err := c.open(); err != nil {
				t.Fatal(err)
			}
			d := &told{}
			c.logs.guard.onDamage = d.add
			fill(t, c.logs, 1, 10)
			c.setFull(true)
			first := uint64(6)
			if then == "has installed a snapshot" {
				first, c.snapshot = 1, 30
			}
			if err := c.logs.DeleteRange(first, 10); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("seed %d: the disk is full: %v", seed, err)
			}
			c.setFull(false)
			if err := c.logs.DeleteRange(1, 2); !errors.Is(err, errOwed) {
				t.Fatalf("seed %d: compacted: %v", seed, err)
			}
			if last, err := c.logs.LastIndex(); last != 10 || err != nil || len(d.all()) != 0 {
				t.Fatalf("seed %d: raft counts on 10 entries, there are %d, %v, %v", seed, last, err, d.all())
			}
			switch then {
			case "appends":
				if err := c.logs.StoreLog(&raft.Log{Index: 11, Term: 2, Data: c.data(t)}); !errors.Is(err, errOwed) || len(d.all()) != 1 {
					t.Fatalf("seed %d: written behind what may be gone: %v, told %v", seed, err, d.all())
				}
				wantHalt(t, d.all()[0], ExitStalled, "make room and restart")
			case "repeats":
				if err := c.logs.DeleteRange(6, 10); err != nil {
					t.Fatalf("seed %d: repeated: %v", seed, err)
				}
				if last, err := c.logs.LastIndex(); last != 5 || err != nil {
					t.Fatalf("seed %d: %d entries, %v", seed, last, err)
				}
				fill(t, c.logs, 6, 8)
				if err := c.logs.DeleteRange(1, 2); err != nil || len(d.all()) != 0 {
					t.Fatalf("seed %d: %v, %v", seed, err, d.all())
				}
			default: // raft does not repeat it, and goes on behind the snapshot
				fill(t, c.logs, 31, 40)
				first, err := c.logs.FirstIndex()
				if err := errors.Join(err, c.logs.DeleteRange(31, 33)); first != 31 || err != nil || len(d.all()) != 0 {
					t.Fatalf("seed %d: begins at %d, %v, %v", seed, first, err, d.all())
				}
			}
			c.end()
		}
	}
}

func (c *crashLog) setLeft(operations int) {
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	c.disk.left = operations
}

func (c *crashLog) setFull(full bool) {
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	c.disk.full = full
}

// crashSeeds is raised by hand: 2,000 take a few minutes.
const crashSeeds = 20
