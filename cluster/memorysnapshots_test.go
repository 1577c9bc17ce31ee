package cluster

import (
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

// TestMemorySnapshotsAreWhole holds that a snapshot in memory is there when it is
// closed, and not before: one that a stop or a crash leaves unfinished does not
// take the place of the one before. Source: seeds 105 and 108 of the simulation.
func TestMemorySnapshotsAreWhole(t *testing.T) {
	t.Parallel()
	s := newMemorySnapshots()
	_, trans := raft.NewInmemTransport("n1")
	create := func(index uint64, state string) raft.SnapshotSink {
		t.Helper()
		sink, err := s.Create(1, index, 2, raft.Configuration{}, 1, trans)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(sink, state); err != nil {
			t.Fatal(err)
		}
		return sink
	}
	holds := func(want string) {
		t.Helper()
		list, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(list) > 0 {
			_, r, err := s.Open(list[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r)
			got = string(b)
		}
		if got != want {
			t.Errorf("it holds %q, want %q", got, want)
		}
	}
	half := create(5, "ha")
	holds("")
	if err := half.Cancel(); err != nil {
		t.Fatal(err)
	}
	holds("")
	whole := create(6, "whole")
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	holds("whole")
	half = create(7, "ha")
	holds("whole")
	if err := half.Cancel(); err != nil {
		t.Fatal(err)
	}
	_ = half.Close()
	holds("whole")
}
