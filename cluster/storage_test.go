package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// told collects what onDamage is told.
type told struct {
	mu   sync.Mutex // guards errs
	errs []error
}

func (d *told) add(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, err)
}

func (d *told) all() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error(nil), d.errs...)
}

// logStoreUnderTest is where the tests of this package keep the log, but for
// those that are about one of the two: ONCED_LOG_STORE=wal go test ./cluster.
func logStoreUnderTest() string { return cmp.Or(os.Getenv("ONCED_LOG_STORE"), LogStoreBolt) }

func tryStorage(dir string, d *told) (*storage, error) {
	return tryStore(logStoreUnderTest(), dir, d)
}

// tryStore opens a storage of one kind; segments of the wal are small.
func tryStore(kind, dir string, d *told) (*storage, error) {
	return openStorage(Config{DataDir: dir, LogStore: kind, walSegment: 128 << 10}, hclog.NewNullLogger(), d.add)
}

func mustStorage(t *testing.T, dir string) (*storage, *told) {
	t.Helper()
	return mustStore(t, logStoreUnderTest(), dir)
}

func mustStore(t *testing.T, kind, dir string) (*storage, *told) {
	t.Helper()
	d := &told{}
	s, err := tryStore(kind, dir, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, d
}

func fill(t *testing.T, s raft.LogStore, first, last uint64) {
	t.Helper()
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 2, Type: raft.LogCommand, Data: testEntry(t, fmt.Sprintf("key-%08d", i))})
	}
	if err := s.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

// addSnapshot makes an empty snapshot, as raft has one before it compacts.
func addSnapshot(t *testing.T, dir string, index uint64) {
	t.Helper()
	snaps, err := openSnapshots(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("n1")
	sink, err := snaps.Create(1, index, 2, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, s *storage) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStorageKeeps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s, _ := mustStorage(t, dir)
	if has, err := s.hasState(); has || err != nil {
		t.Fatal(has, err)
	}
	if _, err := s.stable.GetUint64([]byte("CurrentTerm")); err == nil || err.Error() != "not found" {
		t.Fatalf("raft compares with the text \"not found\", got %v", err)
	}
	if err := s.stable.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatal(err)
	}
	if err := s.stable.Set([]byte("LastVoteCand"), []byte("n2")); err != nil {
		t.Fatal(err)
	}
	fill(t, s.logs, 1, 3000)
	closed(t, s)

	s, d := mustStorage(t, dir)
	if has, err := s.hasState(); !has || err != nil {
		t.Fatal(has, err)
	}
	term, err := s.stable.GetUint64([]byte("CurrentTerm"))
	if term != 7 || err != nil {
		t.Fatal(term, err)
	}
	if v, err := s.stable.Get([]byte("LastVoteCand")); string(v) != "n2" || err != nil {
		t.Fatal(v, err)
	}
	var l raft.Log
	if err := s.logs.GetLog(2000, &l); err != nil || l.Index != 2000 || l.Term != 2 || l.Extensions != nil || !bytes.Equal(l.Data, testEntry(t, "key-00002000")) {
		t.Fatal(err, l)
	}
	if err := s.logs.GetLog(3001, &l); err != raft.ErrLogNotFound { //nolint:errorlint // raft compares so
		t.Fatalf("got %v", err)
	}
	if m, ok := s.logs.(raft.MonotonicLogStore); !ok || m.IsMonotonic() != (s.wal != nil) {
		t.Fatal("bolt may have gaps, the wal may not")
	}
	if logs, _ := s.sizes(); logs < 3000*20 {
		t.Fatalf("%d bytes of log", logs)
	}
	if st, err := os.Stat(filepath.Join(dir, raftFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatal(err, st.Mode())
	}
	if len(d.all()) != 0 {
		t.Fatal(d.all())
	}
}

func TestStorageInMemory(t *testing.T) {
	t.Parallel()
	s, _ := mustStorage(t, "")
	fill(t, s.logs, 1, 10)
	var l raft.Log
	if err := s.logs.GetLog(10, &l); err != nil || l.Extensions != nil {
		t.Fatal(err, l)
	}
	if has, err := s.hasState(); !has || err != nil {
		t.Fatal(has, err)
	}
	if a, b := s.sizes(); a != 0 || b != 0 {
		t.Fatal(a, b)
	}
}

func TestStorageIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := mustStorage(t, dir)
	part := filepath.Join(dir, snapshotsDir, "2-9-1.tmp") // being written
	if err := os.Mkdir(part, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := tryStorage(dir, &told{})
	wantHalt(t, err, ExitRefused, "is in use by another process")
	if _, err := os.Stat(part); err != nil {
		t.Errorf("the second process was at the first one's data: %v", err)
	}
	closed(t, s)
	mustStorage(t, dir)
}

func TestStorageSnapshotsArePrivateAndPartsGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	part := filepath.Join(dir, snapshotsDir, "2-9-1.tmp")
	if err := os.MkdirAll(part, 0o700); err != nil {
		t.Fatal(err)
	}
	s, _ := mustStorage(t, dir)
	if _, err := os.Stat(part); err == nil {
		t.Fatal("the unfinished snapshot is still there")
	}
	_, trans := raft.NewInmemTransport("n1")
	sink, err := s.snaps.Create(1, 5, 2, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		st, serr := os.Stat(path)
		if err != nil || serr != nil || (path != dir && st.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s: %v %v %v", path, st.Mode(), err, serr)
		}
		return nil
	})
	if list, err := s.snaps.List(); err != nil || len(list) != 1 || list[0].Index != 5 {
		t.Fatal(list, err)
	}
	if _, n := s.sizes(); n < 1000 {
		t.Fatalf("%d bytes of snapshots", n)
	}
}

// A crash between the two writes of raft.BootstrapCluster.
func TestB12_HalfBootstrap(t *testing.T) {
	t.Parallel()
	s, _ := mustStorage(t, t.TempDir())
	_, trans := raft.NewInmemTransport("n1")
	bootstrap := func() error {
		return raft.BootstrapCluster(quickRaft("n1"), s.logs, s.stable, s.snaps, trans,
			raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}})
	}
	if err := s.forgetHalfBootstrap(); err != nil {
		t.Fatal(err)
	}
	if err := s.stable.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap(); !errors.Is(err, raft.ErrCantBootstrap) {
		t.Fatalf("the crash is not played: %v", err)
	}
	if err := s.forgetHalfBootstrap(); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap(); err != nil {
		t.Fatal(err)
	}
	if err := s.forgetHalfBootstrap(); err != nil {
		t.Fatal(err)
	}
	if last, _ := s.logs.LastIndex(); last != 1 {
		t.Fatalf("last index %d", last)
	}
}

// stored is all that raft can read.
type stored struct {
	First, Last uint64
	Logs        []raft.Log
	Term        uint64
	Vote        string
}

func readStored(t *testing.T, s *storage) (st stored, err error) {
	t.Helper()
	if st.First, err = s.logs.FirstIndex(); err != nil {
		return st, err
	}
	if st.Last, err = s.logs.LastIndex(); err != nil {
		return st, err
	}
	for i := st.First; i > 0 && i <= st.Last; i++ {
		var l raft.Log
		if err := s.logs.GetLog(i, &l); err != nil {
			return st, err
		}
		l.AppendedAt = time.Time{} // told by raft, used by nobody
		st.Logs = append(st.Logs, l)
	}
	if st.Term, err = s.stable.GetUint64([]byte("CurrentTerm")); err != nil {
		return st, err
	}
	vote, err := s.stable.Get([]byte("LastVoteCand"))
	st.Vote = string(vote)
	return st, err
}

// sample makes a raft.db with branch pages, free pages and overflow pages, and
// gives its bytes, what is in it, and a directory with the snapshot beside it.
func sample(t *testing.T) (file []byte, want stored, snapshots string) {
	t.Helper()
	dir := t.TempDir()
	s, _ := mustStore(t, LogStoreBolt, dir)
	for _, err := range []error{
		s.stable.SetUint64([]byte("CurrentTerm"), 7),
		s.stable.SetUint64([]byte("LastVoteTerm"), 7),
		s.stable.Set([]byte("LastVoteCand"), []byte("n2")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fill(t, s.logs, 1, 300)
	if err := s.logs.StoreLog(&raft.Log{Index: 301, Term: 2, Data: testEntry(t, strings.Repeat("x", 10_000))}); err != nil {
		t.Fatal(err)
	}
	if err := s.logs.StoreLog(&raft.Log{Index: 302, Term: 3, Type: raft.LogConfiguration, Data: []byte("whatever")}); err != nil {
		t.Fatal(err)
	}
	if err := s.logs.DeleteRange(1, 100); err != nil {
		t.Fatal(err)
	}
	for i := uint64(303); i < 310; i++ {
		fill2 := &raft.Log{Index: i, Term: 3, Data: testEntry(t, fmt.Sprint("single-", i))}
		if err := s.logs.StoreLog(fill2); err != nil {
			t.Fatal(err)
		}
	}
	want, err := readStored(t, s)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	b, err := os.ReadFile(filepath.Join(dir, raftFile))
	if err != nil {
		t.Fatal(err)
	}
	snapshots = t.TempDir()
	addSnapshot(t, snapshots, want.First-1)
	return b, want, snapshots
}

// openDamaged opens b as raft.db, beside a snapshot as it has to be: it must be
// refused with one sentence, or hold exactly want.
func openDamaged(t *testing.T, snapshots string, b []byte, want stored, what string) (refused bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(snapshots)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, raftFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &told{}
	s, err := tryStore(LogStoreBolt, dir, d)
	if err != nil {
		wantHalt(t, err, ExitHalted, "is damaged")
		return true
	}
	defer s.Close()
	got, err := readStored(t, s)
	if err != nil {
		t.Fatalf("%s: not seen at the start: %v", what, err)
	}
	if !gocmp.Equal(got, want) {
		t.Fatalf("%s: changed unnoticed: %s", what, gocmp.Diff(want, got))
	}
	// It must also be possible to go on: writes use what the flip may have hit.
	if err := s.logs.StoreLog(&raft.Log{Index: got.Last + 1, Term: 9, Data: testEntry(t, "one-more")}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := s.logs.DeleteRange(got.First, got.First+50); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if len(d.all()) != 0 {
		t.Fatalf("%s: %v", what, d.all())
	}
	return false
}

func TestB29_TruncatedLog(t *testing.T) {
	t.Parallel()
	b, want, snapshots := sample(t)
	if openDamaged(t, snapshots, b, want, "whole") {
		t.Fatal("the whole file is refused")
	}
	sizes := []int{0, 1, 64, 80, 4095, 4096, 4097, 8191, 8192, 12288, 16384, len(b) / 2}
	for n := len(b) - 4096; n > 16384; n -= 4096 {
		sizes = append(sizes, n) // may be harmless: bbolt grows the file ahead
	}
	for _, n := range sizes {
		if !openDamaged(t, snapshots, b[:n], want, fmt.Sprint("cut to ", n)) && n <= 16384 {
			t.Errorf("cut to %d: opened", n)
		}
	}
	// Without snapshots an emptied file is a new one: the marker refuses it.
	s, _ := mustStorage(t, t.TempDir())
	has, err := s.hasState()
	if err != nil {
		t.Fatal(err)
	}
	wantHalt(t, checkState(identity{NodeID: "n1", Initialised: true}, has), ExitRefused, "Put the old disk back")
}

// flipRounds is raised by hand: 3,000 flips take a minute.
const flipRounds = 60

func TestB29_FlippedBits(t *testing.T) {
	t.Parallel()
	b, want, snapshots := sample(t)
	rnd := rand.New(rand.NewPCG(29, 1))
	refused := 0
	flip := func(at int, bit uint) {
		b[at] ^= 1 << bit
		if openDamaged(t, snapshots, b, want, fmt.Sprintf("flip of bit %d of byte %d", bit, at)) {
			refused++
		}
		b[at] ^= 1 << bit
	}
	for range flipRounds {
		flip(rnd.IntN(len(b)), uint(rnd.IntN(8)))
		// And what holds the file together: page headers and first elements.
		flip(4096*rnd.IntN(len(b)/4096)+rnd.IntN(80), uint(rnd.IntN(8)))
	}
	t.Logf("%d of %d flips refused, the others harmless", refused, 2*flipRounds)
	if refused == 0 {
		t.Error("nothing was noticed")
	}
}

// bbolt would take the older of two meta pages and so forget a transaction.
func TestB29_FlippedMeta(t *testing.T) {
	t.Parallel()
	b, want, snapshots := sample(t)
	for _, page := range []int{0, 4096} {
		for _, at := range []int{16, 20, 24, 33, 49, 57, 65, 73} {
			b[page+at] ^= 4
			if !openDamaged(t, snapshots, b, want, fmt.Sprint("meta byte ", page+at)) {
				t.Errorf("flip at byte %d of page %d: opened", at, page/4096)
			}
			b[page+at] ^= 4
		}
	}
}

// A flipped bit in a term or a vote is no other term or vote.
func TestB29_FlippedTerm(t *testing.T) {
	t.Parallel()
	mem, d := raft.NewInmemStore(), &told{}
	s := &stableStore{inner: mem, guard: storeGuard{onDamage: d.add}}
	key := []byte("CurrentTerm")
	if err := s.SetUint64(key, 7); err != nil {
		t.Fatal(err)
	}
	good, _ := mem.Get(key)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		_ = mem.Set(key, bad)
		if v, err := s.GetUint64(key); !errors.Is(err, errDamaged) || len(d.all()) != i+1 {
			t.Fatalf("byte %d: %d, %v, told %v", i, v, err, d.all())
		}
	}
	_ = mem.Set([]byte("LastVoteTerm"), good)
	if v, err := s.GetUint64([]byte("LastVoteTerm")); !errors.Is(err, errDamaged) {
		t.Fatalf("the value of another key: %d, %v", v, err)
	}
}

// One flipped byte in a stored command, after the start: GetLog tells.
func TestB29_FlippedCommand(t *testing.T) {
	t.Parallel()
	mem, d := raft.NewInmemStore(), &told{}
	s := &logStore{inner: mem, guard: storeGuard{onDamage: d.add}}
	fill(t, s, 1, 3)
	wrong := map[string]func(l *raft.Log){
		"data":       func(l *raft.Log) { l.Data = append([]byte(nil), l.Data...); l.Data[len(l.Data)-1] ^= 1 },
		"term":       func(l *raft.Log) { l.Term ^= 1 },
		"type":       func(l *raft.Log) { l.Type = raft.LogNoop },
		"index":      func(l *raft.Log) { l.Index = 3 },
		"seal":       func(l *raft.Log) { l.Extensions = nil },
		"other seal": func(l *raft.Log) { l.Extensions = append([]byte{2}, l.Extensions[1:]...) },
		"resealed": func(l *raft.Log) {
			l.Data = append([]byte(nil), l.Data...)
			l.Data[len(l.Data)-1] ^= 1
			l.Extensions = seal(l)
		},
	}
	for name, change := range wrong {
		good := raft.Log{}
		if err := mem.GetLog(2, &good); err != nil {
			t.Fatal(err)
		}
		bad := good
		change(&bad)
		if bad.Index == 2 {
			_ = mem.StoreLog(&bad)
		} else {
			continue
		}
		before := len(d.all())
		out := raft.Log{Index: 77}
		if err := s.GetLog(2, &out); !errors.Is(err, errDamaged) || out.Index != 77 {
			t.Errorf("%s: got %v and %v", name, err, out)
		}
		if got := d.all(); len(got) != before+1 {
			t.Errorf("%s: nobody was told", name)
		} else {
			wantHalt(t, got[before], ExitHalted, "log entry 2")
		}
		_ = mem.StoreLog(&good)
		if err := s.GetLog(2, &out); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogStoreRefusesWrongEntries(t *testing.T) {
	t.Parallel()
	s, d := mustStorage(t, t.TempDir())
	good := testEntry(t, "key-0001")
	bad := append([]byte(nil), good...)
	bad[len(bad)-1] ^= 1
	for _, l := range []*raft.Log{{Index: 2, Data: bad}, {Index: 2, Data: good, Extensions: []byte("x")}} {
		if err := s.logs.StoreLogs([]*raft.Log{{Index: 1, Data: good}, l}); err == nil {
			t.Error("stored")
		}
	}
	if last, _ := s.logs.LastIndex(); last != 0 || len(d.all()) != 0 {
		t.Errorf("last index %d, told %v: one entry refused is none stored, and no damage here", last, d.all())
	}
}

func TestLogStoreDeletesPrefixInChunks(t *testing.T) {
	t.Parallel()
	s, _ := mustStore(t, LogStoreBolt, t.TempDir())
	inner := &countingLog{LogStore: s.bolt}
	ls := &logStore{inner: inner, guard: storeGuard{onDamage: func(err error) { t.Error(err) }}}
	fill(t, ls, 1, 5000)
	if err := ls.DeleteRange(1, 4500); err != nil {
		t.Fatal(err)
	}
	if want := []indexRange{{1, 2048}, {2049, 4096}, {4097, 4500}}; !gocmp.Equal(inner.deleted, want, gocmp.AllowUnexported(indexRange{})) {
		t.Fatalf("deleted %v", inner.deleted)
	}
	present := func(first, last uint64) {
		t.Helper()
		for i := uint64(1); i <= 5000; i++ {
			var l raft.Log
			err := ls.GetLog(i, &l)
			if in := i >= first && i <= last; (err == nil) != in {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
	}
	present(4501, 5000)
	inner.deleted = nil
	if err := ls.DeleteRange(4601, 5000); err != nil { // a conflicting suffix
		t.Fatal(err)
	}
	present(4501, 4600)
	if err := ls.DeleteRange(4501, 4600); err != nil { // all, which is a suffix too
		t.Fatal(err)
	}
	fill(t, ls, 1, 5000)
	if err := ls.DeleteRange(1, 5000); err != nil {
		t.Fatal(err)
	}
	if want := []indexRange{{4601, 5000}, {4501, 4600}, {1, 5000}}; !gocmp.Equal(inner.deleted, want, gocmp.AllowUnexported(indexRange{})) {
		t.Fatalf("deleted %v", inner.deleted)
	}
}

// countingLog notes the deletions.
type countingLog struct {
	raft.LogStore
	deleted []indexRange
}

func (c *countingLog) DeleteRange(first, last uint64) error {
	c.deleted = append(c.deleted, indexRange{first, last})
	return c.LogStore.DeleteRange(first, last)
}

// Whatever raft wants deleted, the older of the two newest snapshots can take
// over (raft-traps 0.10).
func TestLogStaysBehindTheOlderSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := mustStorage(t, dir)
	fill(t, s.logs, 1, 50)
	first := func() uint64 {
		i, err := s.logs.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	for _, step := range []struct{ snapshot, first uint64 }{{10, 11}, {30, 11}, {40, 31}, {45, 41}} {
		addSnapshot(t, dir, step.snapshot)
		if err := s.logs.DeleteRange(first(), step.snapshot); err != nil {
			t.Fatal(err)
		}
		if got := first(); got != step.first {
			t.Fatalf("after the snapshot at %d the log begins at %d, want %d", step.snapshot, got, step.first)
		}
	}
	if err := s.logs.DeleteRange(42, 50); err != nil { // a conflicting suffix is another matter
		t.Fatal(err)
	}
	if last, _ := s.logs.LastIndex(); last != 41 {
		t.Fatalf("last index %d", last)
	}
}

// A crash between two chunks leaves a shorter prefix, nothing else.
func TestLogStoreCrashBetweenChunks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := mustStore(t, LogStoreBolt, dir)
	if err := s.stable.SetUint64([]byte("CurrentTerm"), 2); err != nil {
		t.Fatal(err)
	}
	crash := errors.New("crash")
	ls := &logStore{inner: s.bolt, guard: storeGuard{onDamage: func(err error) { t.Error(err) }}, afterChunk: func() error { return crash }}
	fill(t, ls, 1, 5000)
	if err := ls.DeleteRange(1, 4500); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	closed(t, s)
	addSnapshot(t, dir, 4500)
	s, _ = mustStore(t, LogStoreBolt, dir)
	first, _ := s.logs.FirstIndex()
	last, _ := s.logs.LastIndex()
	if first != 2049 || last != 5000 {
		t.Fatalf("%d to %d", first, last)
	}
}

// raft panics on a hole behind its newest snapshot; below it one is normal.
func TestStorageHoles(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T, snapshot uint64) error {
		dir := t.TempDir()
		s, _ := mustStore(t, LogStoreBolt, dir)
		if err := s.stable.SetUint64([]byte("CurrentTerm"), 2); err != nil {
			t.Fatal(err)
		}
		fill(t, s.logs, 1, 20)
		fill(t, s.logs, 31, 40)
		if snapshot > 0 {
			addSnapshot(t, dir, snapshot)
		}
		closed(t, s)
		s, err := tryStore(LogStoreBolt, dir, &told{})
		if err == nil {
			closed(t, s)
		}
		return err
	}
	wantHalt(t, build(t, 0), ExitHalted, "log entries 21 to 30 are missing")
	wantHalt(t, build(t, 25), ExitHalted, "log entries 26 to 30 are missing")
	if err := build(t, 30); err != nil {
		t.Error(err)
	}
	t.Run("entries without a term", func(t *testing.T) {
		dir := t.TempDir()
		s, _ := mustStore(t, LogStoreBolt, dir)
		fill(t, s.logs, 1, 2)
		closed(t, s)
		_, err := tryStore(LogStoreBolt, dir, &told{})
		wantHalt(t, err, ExitHalted, "no term")
	})
}

func TestStoreGuard(t *testing.T) {
	t.Parallel()
	d := &told{}
	g := storeGuard{onDamage: d.add}
	if err := g.run("read", func() error { panic("page 7: invalid") }); !errors.Is(err, errDamaged) {
		t.Fatal(err)
	}
	wantHalt(t, d.all()[0], ExitHalted, "read: damaged: page 7: invalid")
	if err := g.write("write", func() error { return &os.PathError{Op: "write", Err: syscall.ENOSPC} }); err == nil || len(d.all()) != 1 {
		t.Fatalf("a full disk only refuses: %v, %v", err, d.all())
	}
	if err := g.write("write", func() error { return syscall.EIO }); err == nil || len(d.all()) != 2 {
		t.Fatal(err, d.all())
	}
	wantHalt(t, d.all()[1], ExitStalled, "the disk failed")
}

// A hung disk ends the process; a slow one does not (hashicorp/raft#503).
func TestB04_DiskThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &told{}
		var stalls atomic.Int32
		g := storeGuard{onDamage: d.add, stallAfter: diskStall, stalls: &stalls}
		takes := func(much time.Duration) {
			if err := g.write("store log entries", func() error {
				time.Sleep(diskStall/stallSteps - time.Millisecond)
				if synctest.Wait(); stalls.Load() != 0 {
					t.Error("stalled before the first step is over")
				}
				time.Sleep(2 * time.Millisecond)
				if synctest.Wait(); stalls.Load() != 1 {
					t.Error("not stalled after the first step")
				}
				time.Sleep(much)
				return nil
			}); err != nil {
				t.Error(err)
			}
			if stalls.Load() != 0 {
				t.Error("still stalled after the answer")
			}
			synctest.Wait()
		}
		takes(diskStall - time.Second)
		takes(diskStall - time.Second)
		if got := d.all(); len(got) != 0 {
			t.Fatalf("a slow disk: %v", got)
		}
		takes(2 * diskStall)
		if got := d.all(); len(got) != 1 {
			t.Fatalf("a hung disk: %v", got)
		} else {
			wantHalt(t, got[0], ExitStalled, "store log entries: the disk has not answered for 8s")
		}
	})
}
