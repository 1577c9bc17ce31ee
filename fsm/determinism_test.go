package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // TZ must mean something on a machine without zone files
)

const (
	replayFile = "ONCED_TEST_REPLAY" // a log: the process is to replay it and say what came of it
	replayZone = "ONCED_TEST_ZONE"   // the zone that its TZ should have given it
)

// Other processes, with other processors, time zones, languages and garbage
// collection, come to the same hash and the same snapshot at every index of a
// log that has every op in it, done and refused.
func TestSameInAnotherProcess(t *testing.T) {
	t.Parallel()
	log, _ := randomLog(t, 2, 2000, 6)
	var b []byte
	for _, e := range log {
		entry := encoded(t, e)
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(entry))), entry...)
	}
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var here strings.Builder
	replayTo(t, &here, file)
	if n := strings.Count(here.String(), "\n"); n != len(log) {
		t.Fatalf("%d lines for %d entries", n, len(log))
	}
	for _, env := range [][]string{
		{"GOMAXPROCS=1", "TZ=Asia/Kathmandu", replayZone + "=Asia/Kathmandu", "LC_ALL=tr_TR.UTF-8", "GOGC=5"},
		{"GOMAXPROCS=7", "TZ=America/St_Johns", replayZone + "=America/St_Johns", "LC_ALL=C", "GOGC=off", "GODEBUG=randautoseed=0"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReplayOfALog$")
		cmd.Env = append(os.Environ(), append(env, replayFile+"="+file)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", env, err, out)
		}
		there := strings.SplitAfter(string(out), "\n")
		for i, want := range strings.SplitAfter(strings.TrimSuffix(here.String(), "\n"), "\n") {
			if i >= len(there) || strings.TrimSpace(there[i]) != strings.TrimSpace(want) {
				t.Fatalf("%v: another state at index %d:\n%s%s", env, i+1, want, strings.Join(there[i:min(i+1, len(there))], ""))
			}
		}
	}
}

// TestReplayOfALog is the other process of the test above.
func TestReplayOfALog(t *testing.T) {
	file := os.Getenv(replayFile)
	if file == "" {
		t.Skip("no log to replay")
	}
	if zone := os.Getenv(replayZone); time.Local.String() != zone {
		t.Fatalf("TZ=%s gave the zone %s", os.Getenv("TZ"), time.Local)
	}
	if n := fmt.Sprint(runtime.GOMAXPROCS(0)); n != os.Getenv("GOMAXPROCS") {
		t.Fatalf("GOMAXPROCS is %s", n)
	}
	replayTo(t, os.Stdout, file)
}

// replayTo writes a line an index: the results, the hash and the digest of the
// snapshot.
func replayTo(t *testing.T, w io.Writer, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := New()
	for len(b) > 0 {
		n := 4 + binary.BigEndian.Uint32(b)
		e, err := DecodeEntry(b[4:n])
		if err != nil {
			t.Fatal(err)
		}
		b = b[n:]
		results := sha256.New()
		for _, res := range m.Apply(m.Index()+1, e) {
			fmt.Fprintln(results, res.Code, res.Outcome, res.Detail, res.Changed, res.Resumed, res.RetryAfter, res.LeaseRemaining,
				res.Dropped, res.Tombstoned, res.Remaining)
			if res.Record != nil {
				results.Write(appendRecord(nil, res.Record))
			}
			if res.Namespace != nil {
				results.Write(appendNamespace(nil, res.Namespace))
			}
		}
		fmt.Fprintf(w, "%d %x %016x %x\n", m.Index(), results.Sum(nil)[:8], m.StateHash(), sha256.Sum256(snapshotOf(t, m)))
	}
}
