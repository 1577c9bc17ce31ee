package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

const time10m = 10 * time.Minute

func sameResult(a, b Result) bool {
	return cmp.Equal(a, b, cmp.Transformer("record", func(r *Record) Record {
		if r == nil {
			return Record{}
		}
		return *r
	}), cmp.Transformer("namespace", func(ns *Namespace) Namespace {
		if ns == nil {
			return Namespace{}
		}
		n := *ns
		n.hash, n.lastChangeID, n.Horizon = 0, "", 0
		return n
	}), cmp.AllowUnexported(Namespace{}))
}

// richState has something of everything in it.
func richState(tb testing.TB) *rig {
	tb.Helper()
	g := newRig(tb)
	g.must(&Command{Op: fsmpb.Op_OP_INIT, ClusterId: "cluster-1"})
	g.must(&Command{Op: fsmpb.Op_OP_NODE_INFO, Node: &fsmpb.Node{Id: "n1", HttpAddress: "127.0.0.1:8701", Version: "v1"}})
	g.must(replays("n2", 7))
	old := keyBorn(t0, 1)
	r := g.must(reserve(old, "a")).Record
	g.must(commit(old, r.Token, "o1"))
	g.pass(8 * 24 * time.Hour).must(sweep(0))
	g.must(put("team", "c1", rerunBoth()))
	g.must(put("gone", "c2", nil))
	g.must(put("empty", "c3", nil))
	in := func(ns string, c *Command) *Command { c.Namespace = ns; return c }
	g.must(in("gone", reserve(key1, "a")))
	g.must(drop("gone", "d1", true))
	g.must(drop("empty", "d2", false))
	g.must(in("team", reserve(key1, "a")))
	g.pass(time.Minute).must(in("team", reserve(key1, "b")))
	g.must(trade("trade:x", "a"))
	for i, s := range []string{"a", "b", "c", "d", "e", "f"} {
		key := "order-0000000" + s
		r := g.must(reserve(key, "at-"+s)).Record
		switch i {
		case 0:
			c := commit(key, r.Token, "o1")
			c.Redacted = []string{"/secret"}
			g.must(c)
			g.must(replays("n1", 1, &fsmpb.ReplayCount{Namespace: "default", Key: key, Token: r.Token, Count: 3, LastUs: int64(g.now)}))
		case 1:
			g.must(fail(key, r.Token, "o2"))
		case 2:
			g.must(release(key, r.Token))
		case 3:
			g.must(release(key, r.Token))
			g.must(cancel(key))
		case 4:
			c := commit(key, r.Token, "o3")
			c.ResponseOmitted = true
			g.must(c)
		}
	}
	g.must(cancel("order-0000000g"))
	g.must(&Command{Op: fsmpb.Op_OP_TICK})
	return g
}

func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	g := richState(t)
	b := snapshotOf(t, g.m)
	m := restored(t, b)
	if !bytes.Equal(b, snapshotOf(t, m)) {
		t.Fatal("other bytes of the same state")
	}
	if m.StateHash() != g.m.StateHash() || m.Index() != g.m.Index() || m.Now() != g.m.Now() ||
		m.ClusterID() != "cluster-1" || m.LastToken() != g.m.LastToken() {
		t.Fatal("another state")
	}
	if !cmp.Equal(m.Stats(g.now), g.m.Stats(g.now)) || len(m.draining) != 1 {
		t.Fatal("other counts")
	}
	i, h := m.LastTick()
	if j, k := g.m.LastTick(); i != j || h != k {
		t.Fatal("another tick")
	}
	audit(t, m)
	// An empty machine too, and through readers that give little at a time.
	b = snapshotOf(t, New())
	for _, r := range []io.Reader{
		iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b)), iotest.HalfReader(bytes.NewReader(b)),
	} {
		if m, err := ReadSnapshot(r); err != nil || m.StateHash() != New().StateHash() {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	if _, err := ReadSnapshot(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(io.MultiReader(bytes.NewReader(b), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Fatal(err)
	}
}

func TestSnapshotWriteFails(t *testing.T) {
	t.Parallel()
	b := snapshotOf(t, richState(t).m)
	full := errors.New("disk full")
	for _, room := range []int{0, 1, 100, len(b) - 1} {
		n, err := richState(t).m.View().WriteTo(&smallWriter{room: room, err: full})
		if !errors.Is(err, full) || n != int64(room) {
			t.Errorf("room for %d: %d, %v", room, n, err)
		}
	}
}

type smallWriter struct {
	room int
	err  error
}

func (w *smallWriter) Write(b []byte) (int, error) {
	if len(b) > w.room {
		n := w.room
		w.room = 0
		return n, w.err
	}
	w.room -= len(b)
	return len(b), nil
}

// Every flipped bit and every cut of a snapshot is refused.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	b := snapshotOf(t, richState(t).m)
	refused := func(what string, b []byte) {
		t.Helper()
		if m, err := ReadSnapshot(bytes.NewReader(b)); m != nil || !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1 << (i % 8)
		refused(fmt.Sprintf("bit flip at %d", i), bad)
		refused(fmt.Sprintf("cut at %d", i), b[:i])
	}
	refused("one byte more", append(bytes.Clone(b), 0))
	refused("twice", append(bytes.Clone(b), b...))
}

// frames takes a snapshot apart and puts it together, with checksums that fit.
type frame struct {
	kind    frameKind
	payload []byte
}

func takeApart(tb testing.TB, b []byte) []frame {
	tb.Helper()
	var out []frame
	for b = b[len(snapshotMagic)+1:]; len(b) > 0; {
		n := binary.BigEndian.Uint32(b)
		out = append(out, frame{frameKind(b[4]), b[frameHead : frameHead+n]})
		b = b[frameHead+int(n)+frameTail:]
	}
	return out
}

func putTogether(tb testing.TB, list []frame) []byte {
	tb.Helper()
	b := append([]byte(snapshotMagic), snapshotVersion)
	for _, f := range list {
		if f.kind == frameTrailer {
			var t fsmpb.SnapshotTrailer
			if err := proto.Unmarshal(f.payload, &t); err != nil {
				tb.Fatal(err)
			}
			sum := sha256.Sum256(b)
			t.Sha256 = sum[:]
			f.payload, _ = proto.Marshal(&t)
		}
		b = appendFrame(b, f)
	}
	return b
}

func appendFrame(b []byte, f frame) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	b = append(append(b, byte(f.kind)), f.payload...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// B16: an unknown section, or a dropped one, never ends in a partial state,
// however well its checksums fit.
func TestB16_UnknownOrMissingFrames(t *testing.T) {
	t.Parallel()
	b := snapshotOf(t, richState(t).m)
	list := takeApart(t, b)
	if !bytes.Equal(putTogether(t, list), b) {
		t.Fatal("the test does not know the format")
	}
	refused := func(what string, list []frame) {
		t.Helper()
		if m, err := ReadSnapshot(bytes.NewReader(putTogether(t, list))); m != nil || !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i, f := range list {
		what := fmt.Sprintf("frame %d of kind %d ", i, f.kind)
		without := append(append([]frame(nil), list[:i]...), list[i+1:]...)
		refused(what+"dropped", without)
		twice := append(append(append([]frame(nil), list[:i]...), f, f), list[i+1:]...)
		refused(what+"twice", twice)
		for _, kind := range []frameKind{0, frameTrailer + 1, 255} {
			strange := append(append(append([]frame(nil), list[:i]...), frame{kind, nil}), list[i:]...)
			refused(what+"after an unknown one", strange)
		}
		if i > 0 {
			swapped := append([]frame(nil), list...)
			swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
			refused(what+"out of order", swapped)
		}
		// A field of a later version.
		later := append([]frame(nil), list...)
		later[i].payload = append(bytes.Clone(f.payload), 0xfa, 0x7f, 0)
		refused(what+"with an unknown field", later)
	}
	// Counts that fit and a state that does not: the state hash tells.
	for i, f := range list {
		if f.kind != frameRecord {
			continue
		}
		other := append([]frame(nil), list...)
		var r fsmpb.Record
		if err := proto.Unmarshal(f.payload, &r); err != nil {
			t.Fatal(err)
		}
		r.Version++
		other[i].payload, _ = proto.Marshal(&r)
		refused("another version", other)
		r.Version--
		r.Status = 9
		other[i].payload, _ = proto.Marshal(&r)
		refused("unknown status", other)
		r.Status, r.Namespace = fsmpb.Status_STATUS_FAILED, "nowhere"
		other[i].payload, _ = proto.Marshal(&r)
		refused("no namespace", other)
	}
	// A frame whose checksum is wrong, under a SHA-256 that fits.
	bad := appendFrame(append([]byte(snapshotMagic), snapshotVersion), list[0])
	bad[len(bad)-1]++
	for _, f := range list[1 : len(list)-1] {
		bad = appendFrame(bad, f)
	}
	var last fsmpb.SnapshotTrailer
	if err := proto.Unmarshal(list[len(list)-1].payload, &last); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bad)
	last.Sha256 = sum[:]
	payload, _ := proto.Marshal(&last)
	bad = appendFrame(bad, frame{frameTrailer, payload})
	if m, err := ReadSnapshot(bytes.NewReader(bad)); m != nil || !errors.Is(err, ErrDamaged) {
		t.Errorf("frame checksum: %v", err)
	}
	// A trailer that does not fit what came before it.
	for what, f := range map[string]func(*fsmpb.SnapshotTrailer){
		"namespaces": func(t *fsmpb.SnapshotTrailer) { t.Namespaces++ },
		"records":    func(t *fsmpb.SnapshotTrailer) { t.Records-- },
		"prints":     func(t *fsmpb.SnapshotTrailer) { t.Fingerprints++ },
		"nodes":      func(t *fsmpb.SnapshotTrailer) { t.Nodes-- },
		"audit":      func(t *fsmpb.SnapshotTrailer) { t.AuditEntries++ },
		"sha256":     func(t *fsmpb.SnapshotTrailer) { t.Sha256[31]++ },
	} {
		var tr fsmpb.SnapshotTrailer
		if err := proto.Unmarshal(list[len(list)-1].payload, &tr); err != nil {
			t.Fatal(err)
		}
		f(&tr)
		payload, _ := proto.Marshal(&tr)
		bad := appendFrame(bytes.Clone(b[:len(b)-frameHead-frameTail-len(list[len(list)-1].payload)]), frame{frameTrailer, payload})
		if m, err := ReadSnapshot(bytes.NewReader(bad)); m != nil || !errors.Is(err, ErrDamaged) {
			t.Errorf("trailer with other %s: %v", what, err)
		}
	}
	refused("nothing", nil)
	refused("a trailer alone", list[len(list)-1:])
}

// B18: what is written is the state at the view's index, whatever is applied
// while it is being written.
func TestB18_ViewDoesNotSeeLaterApplies(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	fill(g, 3000)
	want := snapshotOf(t, g.m)
	v := g.m.View()
	done := make(chan []byte)
	go func() {
		var b bytes.Buffer
		if _, err := v.WriteTo(&b); err != nil {
			t.Error(err)
		}
		done <- b.Bytes()
	}()
	for i := range 200 {
		g.must(cancel(fmt.Sprintf("other-%08d", i)))
		g.must(replays("n1", uint64(i+1), &fsmpb.ReplayCount{
			Namespace: "default", Key: "order-00000007", Token: g.rec("order-00000007").Token, Count: 1,
		}))
	}
	g.pass(9 * 24 * time.Hour).must(sweep(MaxSweep))
	if !bytes.Equal(<-done, want) {
		t.Fatal("the view has changed")
	}
	if n, err := v.WriteTo(io.Discard); err != nil || n != int64(len(want)) || v.Index() == g.m.Index() {
		t.Fatal(n, err)
	}
	audit(t, g.m)
}

// Taking a view costs the same at any size.
func TestViewAllocationsAreConstant(t *testing.T) {
	allocs := func(n int) float64 {
		g := newRig(t)
		fill(g, n)
		return testing.AllocsPerRun(10, func() { g.m.View() })
	}
	small, large := allocs(1000), allocs(100_000)
	if small != large || large > 20 {
		t.Fatalf("%v allocations at 1,000 records, %v at 100,000", small, large)
	}
}

// A log of 2,000 commands is decided alike by a machine that has seen all of it
// and by one that begins with the snapshot at any index.
//
// Replaying all the rest from each of 2,000 snapshots would be two million
// applies; windows say the same. From every index i the restored machine R
// replays the next window, and has the original's hash after each entry and its
// snapshot, byte for byte, at the end. audit then shows that all else R holds (the
// orders over time, the counts, the running sum) is what its records make it. So
// at the end of its window R is the machine that the window beginning there
// begins with, and the argument goes on from there to the end of the log. What a
// snapshot does not carry at all, the older ticks, decides nothing. Every 97th
// index replays the whole rest all the same, lest the argument has a hole.
func TestSnapshotAtEveryIndex(t *testing.T) {
	t.Parallel()
	const window = 12
	for _, kind := range []struct {
		name     string
		commands int // in an entry, at most
	}{{"one command an entry", 1}, {"several", 6}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			log, g := randomLog(t, 1, 2000, kind.commands)
			m := New()
			snaps, hashes := [][]byte{snapshotOf(t, m)}, []uint64{m.StateHash()}
			for i, e := range log {
				m.Apply(uint64(i+1), e)
				snaps = append(snaps, snapshotOf(t, m))
				hashes = append(hashes, m.StateHash())
			}
			if m.StateHash() != g.StateHash() {
				t.Fatal("replayed to another state than the log was made with")
			}
			for at := range snaps {
				m, end := restored(t, snaps[at]), min(at+window, len(log))
				if m.StateHash() != hashes[at] || !bytes.Equal(snapshotOf(t, m), snaps[at]) {
					t.Fatalf("restored at %d to another state", at)
				}
				if at%97 == 0 {
					end = len(log)
				}
				for i := at; i < end; i++ {
					m.Apply(uint64(i+1), log[i])
					if m.StateHash() != hashes[i+1] {
						t.Fatalf("snapshot at %d: another state at %d", at, i+1)
					}
				}
				audit(t, m)
				if !bytes.Equal(snapshotOf(t, m), snaps[end]) {
					t.Fatalf("snapshot at %d: other bytes at %d", at, end)
				}
			}
		})
	}
}

// randomLog makes a log of so many commands, in entries of at most perEntry, and
// gives the machine that has applied it. Every op is in it, done and refused.
func randomLog(tb testing.TB, seed uint64, commands, perEntry int) ([]*Entry, *Machine) {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(seed, uint64(perEntry)))
	g := newRig(tb).crowd()
	var log []*Entry
	done, refused := map[fsmpb.Op]int{}, map[fsmpb.Op]int{}
	for left := commands; left > 0; {
		e := randomEntry(rnd, g)
		e.Commands = e.Commands[:min(len(e.Commands), perEntry, left)]
		left -= len(e.Commands)
		log = append(log, e)
		for i, res := range g.m.Apply(uint64(len(log)), e) {
			if op := e.Commands[i].Op; res.Code == "" {
				done[op]++
			} else {
				refused[op]++
			}
		}
	}
	audit(tb, g.m)
	for op := fsmpb.Op(1); int(op) < len(fsmpb.Op_name); op++ {
		if done[op] == 0 {
			tb.Errorf("the log has no %v that was done", op)
		}
		switch op {
		case fsmpb.Op_OP_NODE_INFO, fsmpb.Op_OP_SWEEP, fsmpb.Op_OP_TICK, fsmpb.Op_OP_REPLAYS:
			continue // never refused for what is in the state
		}
		if refused[op] == 0 {
			tb.Errorf("the log has no %v that was refused", op)
		}
	}
	return log, g.m
}

// weightedOps are the ops as often as a log needs them to get anywhere.
var weightedOps = func() (ops []fsmpb.Op) {
	for op, weight := range map[fsmpb.Op]int{
		fsmpb.Op_OP_RESERVE: 12, fsmpb.Op_OP_COMMIT: 4, fsmpb.Op_OP_FAIL: 2, fsmpb.Op_OP_RELEASE: 3, fsmpb.Op_OP_EXTEND: 3,
		fsmpb.Op_OP_CANCEL: 1, fsmpb.Op_OP_RESOLVE: 3, fsmpb.Op_OP_NAMESPACE_PUT: 2, fsmpb.Op_OP_NAMESPACE_DELETE: 1,
		fsmpb.Op_OP_NODE_INFO: 1, fsmpb.Op_OP_SWEEP: 2, fsmpb.Op_OP_TICK: 1, fsmpb.Op_OP_REPLAYS: 2, fsmpb.Op_OP_INIT: 1,
	} {
		ops = append(ops, slices.Repeat([]fsmpb.Op{op}, weight)...)
	}
	slices.Sort(ops)
	return ops
}()

// randomEntry makes calls that are likely to meet each other.
func randomEntry(rnd *rand.Rand, g *rig) *Entry {
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	e := &Entry{}
	g.pass(time.Duration(rnd.Int64N(int64(20 * time.Second))))
	if rnd.IntN(25) == 0 {
		g.pass(time.Duration(rnd.Int64N(int64(4 * 24 * time.Hour))))
	}
	e.TimeUs = int64(g.now)
	for range 1 + rnd.IntN(6) {
		ns, key := pick("default", "default", "team", "lax"), fmt.Sprintf("order-%08d", rnd.IntN(8))
		if rnd.IntN(4) == 0 {
			key = keyBorn(g.now-g.now%minute, rnd.IntN(2))
		}
		token := g.m.LastToken() - uint64(rnd.IntN(2))
		if r, ok := g.m.Record(ns, key); ok && rnd.IntN(4) > 0 {
			token = r.Token
		}
		c := &Command{
			Op: weightedOps[rnd.IntN(len(weightedOps))], Namespace: ns, Key: key, Token: token,
			AttemptId: pick("a", "b", "c", fmt.Sprint(rnd.Uint32())), RequestDigest: pick(aHash, aHash, aHash, bHash),
			OutcomeDigest: pick("o1", "o2"), HasResponse: true, Response: []byte(pick("1", "22")),
			Verdict: fsmpb.Verdict(1 + rnd.IntN(3)), Limit: uint32(rnd.IntN(4)), CorrelationId: pick("", "corr"),
		}
		switch c.Op {
		case fsmpb.Op_OP_RESERVE:
			if rnd.IntN(3) == 0 {
				c.Key, c.Fingerprint = "", pick("trade:x", "trade:y")
			}
		case fsmpb.Op_OP_NAMESPACE_PUT:
			c.Policy = rerunNone()
			if ns == "lax" {
				c.Policy = rerunBoth()
			}
			if rnd.IntN(3) == 0 {
				c.Policy = &fsmpb.PolicyPatch{Preset: proto.String(pick("strict", "gateway"))}
			}
		case fsmpb.Op_OP_NAMESPACE_DELETE:
			c.Force = true
			if rnd.IntN(7) > 0 { // one that is done ends the namespace for ever
				c.Namespace = pick("default", "nowhere")
			}
		case fsmpb.Op_OP_NODE_INFO:
			c.Node = &fsmpb.Node{Id: pick("n1", "n2"), Version: pick("1", "2")}
		case fsmpb.Op_OP_REPLAYS:
			c.Replays = &fsmpb.ReplayBatch{NodeId: "n1", Sequence: g.m.ReplaySequence("n1") + uint64(rnd.IntN(2)), Counts: []*fsmpb.ReplayCount{
				{Namespace: ns, Key: key, Token: token, Count: 2, LastUs: int64(g.now)},
			}}
		case fsmpb.Op_OP_INIT:
			c.ClusterId = pick("one", "two")
		}
		e.Commands = append(e.Commands, c)
	}
	return e
}
