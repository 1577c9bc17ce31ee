package fsm

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
)

// The files under testdata are what earlier versions wrote. They are only ever
// added to: a change that needs -update for a file that is there breaks every
// log and backup in the field.
var update = flag.Bool("update", false, "write golden files that are not there yet")

func golden(t *testing.T, name string, today []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		if err := os.WriteFile(path, today, 0o644); err != nil {
			t.Fatal(err)
		}
		return today
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenEntries(t *testing.T) {
	for name, want := range oneOfEach() {
		today := encoded(t, want)
		b := golden(t, "entry_"+name+".bin", today)
		got, err := DecodeEntry(b)
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: decodes to %v, %v", name, got, err)
		}
		if !bytes.Equal(b, today) {
			t.Errorf("%s: is encoded otherwise today", name)
		}
	}
}

func TestGoldenSnapshot(t *testing.T) {
	m := richState(t).m
	today := snapshotOf(t, m)
	b := golden(t, "snapshot_2.bin", today)
	got := restored(t, b)
	if got.StateHash() != m.StateHash() {
		t.Error("restores to another state")
	}
	if !bytes.Equal(b, snapshotOf(t, got)) || !bytes.Equal(b, today) {
		t.Error("is written otherwise today")
	}
	audit(t, got)
}
