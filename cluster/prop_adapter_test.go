package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
)

// haltingAdapter is an adapter and the halts that it has told of.
func haltingAdapter() (*adapter, *[]*HaltError) {
	var halts []*HaltError
	return newAdapter(func(e *HaltError) { halts = append(halts, e) }), &halts
}

func entryAt(t *testing.T, index uint64, cmds ...*fsm.Command) *raft.Log {
	t.Helper()
	b, err := fsm.EncodeEntry(&fsm.Entry{TimeUs: 1_800_000_000_000_000, Commands: cmds})
	if err != nil {
		t.Fatal(err)
	}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: b}
}

// An entry that cannot be read halts the node with exit code 70 and is never
// skipped: nothing after it is applied, and no snapshot says otherwise (R15).
func TestAnUnreadableEntryHalts(t *testing.T) {
	t.Parallel()
	good := entryAt(t, 1, reserveCmd("order-0001"))
	later := bytes.Clone(good.Data)
	later[0] = 200 // a version of the future
	flipped := bytes.Clone(good.Data)
	flipped[len(flipped)-1] ^= 1
	for name, data := range map[string][]byte{"later version": later, "flipped bit": flipped, "empty": {}, "garbage": []byte("garbage")} {
		a, halts := haltingAdapter()
		if _, ok := a.Apply(good).(decided); !ok {
			t.Fatal("a good entry is refused")
		}
		a.Apply(&raft.Log{Index: 2, Term: 1, Type: raft.LogCommand, Data: data})
		a.Apply(entryAt(t, 3, reserveCmd("order-0002")))
		if got := a.index(); got != 1 {
			t.Errorf("%s: applied up to %d", name, got)
		}
		if len(*halts) != 1 || (*halts)[0].ExitCode != ExitHalted || !strings.Contains((*halts)[0].Error(), "log entry 2 ") {
			t.Errorf("%s: halts %v", name, *halts)
		}
		if _, err := a.Snapshot(); !errors.Is(err, errHalted) {
			t.Errorf("%s: snapshot after it: %v", name, err)
		}
		if err := a.Restore(io.NopCloser(strings.NewReader(""))); !errors.Is(err, errHalted) {
			t.Errorf("%s: restore after it: %v", name, err)
		}
	}
}

// A replica whose state differs from the leader's at an index halts; one whose
// state is the same goes on (R31).
func TestADivergedReplicaHalts(t *testing.T) {
	t.Parallel()
	for _, off := range []uint64{0, 1} {
		a, halts := haltingAdapter()
		a.Apply(entryAt(t, 1, &fsm.Command{Op: fsmpb.Op_OP_TICK}))
		var index, hash uint64
		a.read(func(m *fsm.Machine) { index, hash = m.LastTick() })
		a.Apply(entryAt(t, 2, &fsm.Command{Op: fsmpb.Op_OP_TICK, CheckIndex: index, CheckHash: hash + off}))
		a.Apply(entryAt(t, 3, reserveCmd("order-0001")))
		switch {
		case off == 0 && (len(*halts) != 0 || a.index() != 3):
			t.Errorf("equal states: halts %v at index %d", *halts, a.index())
		case off == 1 && (len(*halts) != 1 || (*halts)[0].ExitCode != ExitHalted || a.index() != 2):
			t.Errorf("other states: halts %v at index %d", *halts, a.index())
		}
	}
}

// sinkOf is a snapshot sink with room for so many bytes.
type sinkOf struct {
	bytes.Buffer
	room              int
	closed, cancelled int
}

var errNoRoom = errors.New("no room")

func (s *sinkOf) Write(b []byte) (int, error) {
	if s.Len()+len(b) > s.room {
		return 0, errNoRoom
	}
	return s.Buffer.Write(b)
}

func (s *sinkOf) ID() string    { return "test" }
func (s *sinkOf) Close() error  { s.closed++; return nil }
func (s *sinkOf) Cancel() error { s.cancelled++; return nil }

// A snapshot that cannot be written is cancelled, one that can is closed (R7);
// what is read back replaces the machine whole or not at all (R8).
func TestSnapshotsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	a, halts := haltingAdapter()
	a.Apply(entryAt(t, 1, reserveCmd("order-0001"), reserveCmd("order-0002")))
	frozen, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	a.Apply(entryAt(t, 2, reserveCmd("order-0003"))) // later than the snapshot
	small, large := &sinkOf{room: 10}, &sinkOf{room: 1 << 20}
	if err := frozen.Persist(small); !errors.Is(err, errNoRoom) || small.cancelled != 1 || small.closed != 0 {
		t.Errorf("a full disk: %v, cancelled %d and closed %d times", err, small.cancelled, small.closed)
	}
	if err := frozen.Persist(large); err != nil || large.cancelled != 0 || large.closed != 1 {
		t.Errorf("%v, cancelled %d and closed %d times", err, large.cancelled, large.closed)
	}
	frozen.Release()

	b, _ := haltingAdapter()
	b.Apply(entryAt(t, 1, reserveCmd("order-0009")))
	whole := large.Bytes()
	for _, cut := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		if err := b.Restore(io.NopCloser(bytes.NewReader(whole[:cut]))); !errors.Is(err, fsm.ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		b.read(func(m *fsm.Machine) {
			if _, ok := m.Record("default", "order-0009"); !ok || m.Index() != 1 {
				t.Errorf("cut at %d: the old state is gone", cut)
			}
		})
	}
	if err := b.Restore(io.NopCloser(bytes.NewReader(whole))); err != nil {
		t.Fatal(err)
	}
	b.read(func(m *fsm.Machine) {
		_, old := m.Record("default", "order-0009")
		_, first := m.Record("default", "order-0001")
		_, later := m.Record("default", "order-0003")
		if old || !first || later || m.Index() != 1 {
			t.Errorf("restored: old %v, first %v, later %v, index %d", old, first, later, m.Index())
		}
	})
	if len(*halts) != 0 {
		t.Errorf("halts %v", *halts)
	}
}
