package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// snapshotSample makes a data directory with the log from first to last, of term
// 2, and a snapshot at each of the indexes. It gives the directory of the newest.
func snapshotSample(t *testing.T, first, last uint64, at ...uint64) (dir, newest string) {
	t.Helper()
	dir = t.TempDir()
	s, _ := mustStorage(t, dir)
	if err := s.stable.SetUint64([]byte("CurrentTerm"), 2); err != nil {
		t.Fatal(err)
	}
	fill(t, s.logs, 1, last)
	if first > 1 {
		if err := s.logs.DeleteRange(1, first-1); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, s)
	for _, i := range at {
		addSnapshot(t, dir, i)
	}
	names, err := filepath.Glob(filepath.Join(dir, snapshotsDir, fmt.Sprintf("2-%d-*", at[len(at)-1])))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	return dir, names[0]
}

func flipByte(t *testing.T, path string, at int, mask byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= mask
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every byte of a snapshot's description, and of the seal over it, counts: one
// of them changed, and raft sees the older snapshot only.
func TestB29_FlippedSnapshotMeta(t *testing.T) {
	t.Parallel()
	dir, newest := snapshotSample(t, 1, 40, 10, 30)
	snaps, err := openSnapshots(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	indexes := func() (got []uint64) {
		list, err := snaps.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			got = append(got, m.Index)
		}
		return got
	}
	if got := fmt.Sprint(indexes()); got != "[30 10]" {
		t.Fatalf("whole: %s", got)
	}
	for _, name := range []string{snapshotMeta, snapshotSeal} {
		path := filepath.Join(newest, name)
		size, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range int(size.Size()) {
			for _, mask := range []byte{1, 0x20, 0x80} { // 0x20: a letter of the other case
				flipByte(t, path, at, mask)
				if got := fmt.Sprint(indexes()); got != "[10]" {
					t.Errorf("byte %d of %s flipped by %#x: raft sees %s", at, name, mask, got)
				}
				if _, r, err := snaps.Open(filepath.Base(newest)); err == nil {
					t.Errorf("byte %d of %s flipped by %#x: opened", at, name, mask)
					_ = r.Close()
				}
				flipByte(t, path, at, mask)
			}
		}
	}
	if got := fmt.Sprint(indexes()); got != "[30 10]" {
		t.Fatalf("whole again: %s", got)
	}
}

// A damaged snapshot lets the older one take over, or an empty state, if the log
// carries on from there to its end; else the node does not start.
func TestDamagedSnapshotNeedsTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, last uint64
		at          []uint64
		refused     bool
	}{
		"older and the log behind it":      {11, 40, []uint64{10, 30}, false},
		"older and all of the log":         {1, 40, []uint64{10, 30}, false},
		"no older, but all of the log":     {1, 40, []uint64{30}, false},
		"the log ends with the snapshot":   {11, 30, []uint64{10, 30}, false},
		"the log ends before the snapshot": {11, 29, []uint64{10, 30}, true},
		"the log begins behind it":         {31, 40, []uint64{10, 30}, true},
		"an entry is missing":              {12, 40, []uint64{10, 30}, true},
		"no older, and the log is cut off": {2, 40, []uint64{30}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, newest := snapshotSample(t, c.first, c.last, c.at...)
			for what, damage := range map[string]func(path string){
				"meta flipped":  func(p string) { flipByte(t, filepath.Join(p, snapshotMeta), 20, 1) },
				"meta removed":  func(p string) { _ = os.Remove(filepath.Join(p, snapshotMeta)) },
				"seal removed":  func(p string) { _ = os.Remove(filepath.Join(p, snapshotSeal)) },
				"seal cut":      func(p string) { _ = os.Truncate(filepath.Join(p, snapshotSeal), 0) },
				"state changed": func(p string) { _ = os.WriteFile(filepath.Join(p, "state.bin"), []byte("x"), 0o600) },
				"state removed": func(p string) { _ = os.Remove(filepath.Join(p, "state.bin")) },
			} {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, snapshotsDir, filepath.Base(newest))
				damage(path)
				s, err := tryStorage(dir, &told{})
				if c.refused {
					wantHalt(t, err, ExitHalted, path+" is damaged (")
					if _, err := os.Stat(path); err != nil {
						t.Errorf("%s: refused, and what is left is gone: %v", what, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				list, err := s.snaps.List()
				if err != nil || len(list) != len(c.at)-1 || len(list) > 0 && list[0].Index != c.at[0] {
					t.Errorf("%s: raft sees %v, %v", what, list, err)
				}
				if _, err := os.Stat(path); err == nil {
					t.Errorf("%s: it is still there, and counts when raft removes old ones", what)
				}
				closed(t, s)
			}
		})
	}
}

// A snapshot that was installed stands above a log whose entries of the same
// indexes were never committed: without it they would be.
func TestDamagedInstalledSnapshot(t *testing.T) {
	t.Parallel()
	dir, _ := snapshotSample(t, 1, 40, 10)
	s, _ := mustStorage(t, dir)
	_, trans := raft.NewInmemTransport("n1")
	sink, err := s.snaps.Create(1, 30, 5, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	s, _ = mustStorage(t, dir)
	closed(t, s)
	path := filepath.Join(dir, snapshotsDir, sink.ID())
	flipByte(t, filepath.Join(path, snapshotMeta), 20, 1)
	_, err = tryStorage(dir, &told{})
	wantHalt(t, err, ExitHalted, path+" is damaged (")
	wantHalt(t, err, ExitHalted, "the log does not hold its entries 11 to 30")
}

// closingSink looks at the disk when raft's own sink is closed.
type closingSink struct {
	raft.SnapshotSink
	before func()
}

func (c closingSink) Close() error {
	c.before()
	return c.SnapshotSink.Close()
}

// Whenever a crash comes, a snapshot that has its name has its seal, and before
// it has one no older one is removed.
func TestSnapshotIsSealedBeforeItIsNamed(t *testing.T) {
	t.Parallel()
	dir, _ := snapshotSample(t, 1, 60, 10, 20, 30)
	snaps, err := openSnapshots(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("n1")
	create := func() *sealingSink {
		t.Helper()
		conf := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "a<&>:1"}}}
		sink, err := snaps.Create(1, 40, 2, conf, 1, trans)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write(bytes.Repeat([]byte("state"), 5000)); err != nil {
			t.Fatal(err)
		}
		return sink.(*sealingSink)
	}
	listed := func(dir, want string) {
		t.Helper()
		started, err := openSnapshots(dir, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		good, bad, err := started.scan()
		var got []uint64
		for _, m := range good {
			got = append(got, m.Index)
		}
		if fmt.Sprint(got) != want || len(bad) != 0 || err != nil {
			t.Errorf("%v and damaged %v, %v; want %s", got, bad, err, want)
		}
	}
	crashed := func() string {
		t.Helper()
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		return copied
	}

	sink := create()
	listed(crashed(), "[30 20 10]")
	sink.SnapshotSink = closingSink{sink.SnapshotSink, func() {
		listed(crashed(), "[30 20 10]")
		if _, err := os.Stat(filepath.Join(sink.path+oldSnapshotParts, snapshotSeal)); err != nil {
			t.Errorf("not sealed before raft names it: %v", err)
		}
	}}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	listed(dir, "[40 30 20]")
	if err := snaps.check(sink.ID()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(sink.Close(), sink.Cancel()); err != nil {
		t.Error("closed twice:", err)
	}
	listed(dir, "[40 30 20]")

	// No room for the seal: there is no such snapshot, and none is removed for it.
	for range snapshotsKept + 1 {
		full := create()
		if err := os.Mkdir(filepath.Join(full.path+oldSnapshotParts, snapshotSeal), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := full.Close(); !errors.Is(err, os.ErrExist) {
			t.Fatalf("closed without a seal: %v", err)
		}
		if _, err := os.Stat(full.path + oldSnapshotParts); err == nil {
			t.Error("a part is left")
		}
		listed(dir, "[40 30 20]")
	}
}

// TestSnapshotIsSyncedInPieces holds that little of a snapshot waits for its last
// sync, which log entries would have to wait behind, and that a sync that fails
// leaves nothing of it.
func TestSnapshotIsSyncedInPieces(t *testing.T) {
	t.Parallel()
	snaps, err := openSnapshots(t.TempDir(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("n1")
	create := func() *sealingSink {
		t.Helper()
		sink, err := snaps.Create(1, 40, 2, raft.Configuration{}, 1, trans)
		if err != nil {
			t.Fatal(err)
		}
		return sink.(*sealingSink)
	}
	piece := bytes.Repeat([]byte("state"), 100_000)
	sink := create()
	written, synced := 0, 0
	sync := sink.sync
	sink.sync = func() error {
		info, err := os.Stat(filepath.Join(sink.path+oldSnapshotParts, snapshotState))
		if err != nil || info.Size() < int64(synced)+snapshotSyncEach/2 {
			t.Errorf("at a sync the file has %v, %v", info, err)
		}
		synced = written
		return sync()
	}
	for range 50 {
		written += len(piece)
		if _, err := sink.Write(piece); err != nil {
			t.Fatal(err)
		}
		if written-synced >= snapshotSyncEach {
			t.Fatalf("%d of %d bytes are not synced", written-synced, written)
		}
	}
	if err := errors.Join(sink.Close(), snaps.check(sink.ID())); err != nil {
		t.Fatal(err)
	}

	sink, bad := create(), errors.New("bad sector")
	sink.sync = func() error { return bad }
	for err = nil; err == nil; _, err = sink.Write(piece) {
	}
	if !errors.Is(err, bad) {
		t.Fatal(err)
	}
	if err := errors.Join(sink.Cancel(), sink.Cancel(), sink.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(sink.path + oldSnapshotParts); err == nil {
		t.Error("a part is left")
	}
	if list, err := snaps.List(); len(list) != 1 || err != nil {
		t.Errorf("%d snapshots, %v", len(list), err)
	}
}
