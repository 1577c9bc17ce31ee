package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
)

const walTestSegment = 16 << 10

func tryWAL(dir string, d *told) (*storage, error) {
	return openStorage(Config{DataDir: dir, LogStore: LogStoreWAL, walSegment: walTestSegment}, hclog.NewNullLogger(), d.add)
}

// walSample is a data directory with a log of several segments.
type walSample struct {
	dir  string
	want stored
	// ends gives for each segment file the offset behind what was written, and
	// lastBatch that of the last append, in the newest file.
	ends      map[string]int
	newest    string
	lastBatch int
}

// newWALSample makes one: a prefix is gone, and a conflicting suffix was. killed:
// it was not closed in good order, and no mark was written.
func newWALSample(t *testing.T, killed bool) walSample {
	t.Helper()
	live := t.TempDir()
	s, err := tryWAL(live, &told{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	store := func(l *raft.Log) {
		t.Helper()
		if err := s.logs.StoreLog(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		s.stable.SetUint64([]byte("CurrentTerm"), 7),
		s.stable.Set([]byte("LastVoteCand"), []byte("n2")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := uint64(1); i < 700; i += 50 {
		fill(t, s.logs, i, i+49)
	}
	if err := s.logs.DeleteRange(650, 700); err != nil {
		t.Fatal(err)
	}
	store(&raft.Log{Index: 650, Term: 2, Data: testEntry(t, strings.Repeat("x", 10_000))})
	store(&raft.Log{Index: 651, Term: 3, Type: raft.LogConfiguration, Data: []byte("whatever")})
	if err := s.logs.DeleteRange(1, 300); err != nil {
		t.Fatal(err)
	}
	for i := uint64(652); i < 680; i++ {
		store(&raft.Log{Index: i, Term: 3, Data: testEntry(t, fmt.Sprint("single-", i))})
	}
	w := walSample{dir: t.TempDir(), ends: map[string]int{}}
	if w.want, err = readStored(t, s); err != nil {
		t.Fatal(err)
	}
	addSnapshot(t, live, w.want.First-1)
	state, err := s.wal.meta.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if !killed {
		closed(t, s)
	}
	if err := os.CopyFS(w.dir, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	for _, info := range state.Segments {
		b := w.file(t, walName(info))
		scan, err := scanSegment(b, info)
		if err != nil {
			t.Fatal(err)
		}
		w.newest = walName(info)
		w.ends[w.newest] = scan.end
		next := info.BaseIndex
		for end := 0; end < scan.end; {
			if !info.SealTime.IsZero() && next > info.MaxIndex && info.IndexStart == 0 {
				w.ends[w.newest] = end // what follows was deleted
				break
			}
			w.lastBatch = end
			var entries uint64
			entries, _, end = walBatch(b, end)
			next += entries
		}
	}
	if len(w.ends) < 3 {
		t.Fatalf("%d segments", len(w.ends))
	}
	return w
}

func walName(info types.SegmentInfo) string {
	return fmt.Sprintf("%s/%020d-%016x.wal", walDir, info.BaseIndex, info.ID)
}

func (w walSample) file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names gives the segments, oldest first.
func (w walSample) names() (names []string) {
	for n := range w.ends {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// open opens a copy of the sample in which damage was done. It is refused, or
// holds what want says or, if lost, all of it but the last entry.
func (w walSample) open(t *testing.T, what string, damage func(dir string) error) (refused, lost bool) {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS(w.dir)), damage(dir)); err != nil {
		t.Fatal(err)
	}
	segments := func() int {
		names, _ := filepath.Glob(filepath.Join(dir, walDir, "*"))
		return len(names)
	}
	before := segments()
	d := &told{}
	s, err := tryWAL(dir, d)
	if err != nil {
		if n := segments(); n != before {
			t.Fatalf("%s: refused, but of %d segments %d are left", what, before, n)
		}
		var h *HaltError
		if !errors.As(err, &h) || h.ExitCode != ExitHalted && h.ExitCode != ExitRefused ||
			!strings.Contains(err.Error(), "add the machine under a new id") {
			t.Fatalf("%s: refused with %v", what, err)
		}
		return true, false
	}
	defer s.Close()
	got, err := readStored(t, s)
	if err != nil {
		t.Fatalf("%s: not seen at the start: %v", what, err)
	}
	if !gocmp.Equal(got, w.want) {
		n := len(w.want.Logs) - 1
		if got.First != w.want.First || got.Term != w.want.Term || got.Vote != w.want.Vote || !gocmp.Equal(got.Logs, w.want.Logs[:n]) {
			t.Fatalf("%s: the log changed unnoticed: %d to %d, want %d to %d", what, got.First, got.Last, w.want.First, w.want.Last)
		}
		lost = true
	}
	// It must also be possible to go on.
	if err := s.logs.StoreLog(&raft.Log{Index: got.Last + 1, Term: 9, Data: testEntry(t, "one-more")}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := s.logs.DeleteRange(got.First, got.First+50); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if len(d.all()) != 0 {
		t.Fatalf("%s: %v", what, d.all())
	}
	return false, lost
}

// flipped gives the damage of one flipped bit.
func flipped(name string, at int, bit int) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[at] ^= 1 << bit
		return os.WriteFile(path, b, 0o600)
	}
}

// A flipped bit in what was written is noticed, wherever it is; behind the last
// sector of that it is nothing. After a kill only the length of the last append may make it pass for
// one that was cut off, and then it is gone whole.
func TestWALFlippedBits(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed=", killed), func(t *testing.T) {
			t.Parallel()
			w := newWALSample(t, killed)
			if refused, lost := w.open(t, "whole", func(string) error { return nil }); refused || lost {
				t.Fatal("the whole log is refused")
			}
			rnd := rand.New(rand.NewPCG(31, 1))
			noticed, harmless, dropped := 0, 0, 0
			flip := func(name string, at int) {
				what := fmt.Sprintf("flip in byte %d of %s, written up to %d", at, name, w.ends[name])
				refused, lost := w.open(t, what, flipped(name, at, rnd.IntN(8)))
				length := name == w.newest && at >= w.lastBatch+4 && at < w.lastBatch+walFrameLen
				switch written := at < w.ends[name]; {
				case refused && (written || at/walSector == w.ends[name]/walSector): // the rest of the last sector may have been written, too
					noticed++
				case !refused && !lost && !written:
					harmless++
				case lost && length && killed:
					dropped++
				default:
					t.Errorf("%s: refused %v, last entry lost %v", what, refused, lost)
				}
			}
			names := w.names()
			for range flipRounds {
				name := names[rnd.IntN(len(names))]
				flip(name, rnd.IntN(len(w.file(t, name))))
				flip(name, rnd.IntN(w.ends[name]))
			}
			for at := w.lastBatch; at < w.ends[w.newest]; at += 5 {
				flip(w.newest, at)
			}
			t.Logf("%d flips noticed, %d behind the end, %d took the last append away", noticed, harmless, dropped)
		})
	}
}

// In raft.db, beside the log, a flipped bit is noticed or harmless as ever.
func TestWALFlippedBitsOfRaftDB(t *testing.T) {
	t.Parallel()
	w := newWALSample(t, false)
	rnd := rand.New(rand.NewPCG(31, 2))
	b := w.file(t, raftFile)
	state := bytes.Index(b, []byte(`"NextSegmentID"`))
	for i := range flipRounds {
		at := rnd.IntN(len(b))
		if i%3 == 0 {
			at = state + rnd.IntN(400)
		}
		if _, lost := w.open(t, fmt.Sprint("flip in byte ", at, " of raft.db"), flipped(raftFile, at, rnd.IntN(8))); lost {
			t.Errorf("flip in byte %d of raft.db took an entry away", at)
		}
	}
}

// What is missing, short, empty, old or another's is refused.
func TestWALLostFiles(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		w := newWALSample(t, killed)
		refused := func(what string, damage func(dir string) error) {
			t.Helper()
			if refused, _ := w.open(t, what, damage); !refused {
				t.Errorf("%s: opened, killed %v", what, killed)
			}
		}
		names := w.names()
		for i, name := range names {
			refused(name+" removed", func(dir string) error { return os.Remove(filepath.Join(dir, name)) })
			size := len(w.file(t, name))
			for _, n := range []int{0, 1, 31, 512, 4096, w.ends[name] / 2, w.ends[name] - 1, w.ends[name], size - 1} {
				if n < size {
					refused(fmt.Sprintf("%s cut to %d bytes", name, n), func(dir string) error { return os.Truncate(filepath.Join(dir, name), int64(n)) })
				}
			}
			other := w.file(t, names[(i+1)%len(names)])
			refused("a sector of "+name+" zeroed", func(dir string) error {
				b := bytes.Clone(w.file(t, name))
				at := w.ends[name] / 2 &^ (walSector - 1)
				clear(b[at : at+walSector])
				return os.WriteFile(filepath.Join(dir, name), b, 0o600)
			})
			refused("another segment's bytes in "+name, func(dir string) error { return os.WriteFile(filepath.Join(dir, name), other, 0o600) })
			if name == w.newest && killed {
				continue // as if its appends had not been synced: see walcheck.go
			}
			refused(name+" zeroed", func(dir string) error {
				return os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600)
			})
		}
		refused("all segments removed", func(dir string) error { return os.RemoveAll(filepath.Join(dir, walDir)) })
		for _, n := range []int64{0, 1, 4096, 8192} {
			refused(fmt.Sprintf("raft.db cut to %d bytes", n), func(dir string) error { return os.Truncate(filepath.Join(dir, raftFile), n) })
		}
		refused("raft.db removed", func(dir string) error { return os.Remove(filepath.Join(dir, raftFile)) })
		if !killed { // the mark tells of the last append
			refused("last append taken back", func(dir string) error {
				b := bytes.Clone(w.file(t, w.newest))
				clear(b[w.lastBatch:])
				return os.WriteFile(filepath.Join(dir, w.newest), b, 0o600)
			})
		}
	}
}

// A node keeps the log store of its first start.
func TestLogStoreStays(t *testing.T) {
	t.Parallel()
	for has, other := range map[string]string{LogStoreBolt: LogStoreWAL, LogStoreWAL: LogStoreBolt} {
		c := newTrio(t, 1, t.TempDir(), func(cfg *Config) { cfg.LogStore = has })
		settled(t, c.nodes[0], "acknowledged")
		c.stop(0)
		c.mod = func(cfg *Config) { cfg.LogStore = other }
		c.refusedStart(0, "was made with --log-store "+has+", and cannot be read with --log-store "+other+": set --log-store "+has)
		c.mod = func(cfg *Config) { cfg.LogStore = has }
		if err := c.start(0); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Config{NodeID: "n1", Listener: &net.TCPListener{}, OnHalt: func(*HaltError) {}, PeerAdvertise: "a:1", LogStore: "rocks"}.validated()
	wantHalt(t, err, ExitRefused, "--log-store")
}
