package cluster

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var threeMembers = []Member{{"n1", "h1:1"}, {"n2", "h2:1"}, {"n3", "h3:1"}}

func mustIdentity(t *testing.T, dir, nodeID string) *identityStore {
	t.Helper()
	s, err := openIdentity(dir, nodeID, "", threeMembers, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantHalt wants a *HaltError of one line with this code that says what.
func wantHalt(t *testing.T, err error, code int, what string) {
	t.Helper()
	var h *HaltError
	if !errors.As(err, &h) {
		t.Fatalf("got %v, want a HaltError that says %q", err, what)
	}
	if h.ExitCode != code || !strings.Contains(h.Error(), what) || strings.Contains(h.Error(), "\n") {
		t.Fatalf("got exit code %d, %q; want %d and one line with %q", h.ExitCode, h.Error(), code, what)
	}
}

func TestIdentityIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := mustIdentity(t, dir, "n1")
	first := s.get()
	if first.Initialised || len(first.Instance) != 32 || first.Instances["n1"] != first.Instance {
		t.Fatalf("a new identity is %+v", first)
	}
	if got := mustIdentity(t, dir, "n1").get(); !cmp.Equal(got, first) {
		t.Fatalf("reopened: %s", cmp.Diff(first, got))
	}
	err := s.update(func(id *identity) {
		id.Initialised, id.ClusterID = true, "c1"
		id.Instances["n2"] = "other"
	})
	if err != nil {
		t.Fatal(err)
	}
	want := s.get()
	if got := mustIdentity(t, dir, "n1").get(); !cmp.Equal(got, want) || !got.Initialised || got.Instances["n2"] != "other" {
		t.Fatalf("reopened: %s", cmp.Diff(want, got))
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, identityFile): 0o600, filepath.Join(dir, lockFile): 0o600} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode().Perm(), err, mode)
		}
	}
}

func TestIdentityInMemory(t *testing.T) {
	t.Parallel()
	a, b := mustIdentity(t, "", "n1"), mustIdentity(t, "", "n1")
	if a.get().Instance == b.get().Instance {
		t.Fatal("two memories, one instance")
	}
	got := a.get()
	got.Instances["n2"] = "mine alone"
	if a.get().Instances["n2"] != "" {
		t.Fatal("get does not give a copy")
	}
	if err := a.update(func(id *identity) { id.Initialised = true }); err != nil || !a.get().Initialised {
		t.Fatal(err)
	}
}

func TestIdentityUpdateWritesOnlyChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustIdentity(t, dir, "n1")
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(id *identity) { id.Initialised = false }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path); err == nil {
		t.Fatal("written although nothing changed")
	}
}

// A failed write leaves the identity as it was, in memory too.
func TestIdentityUpdateFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := mustIdentity(t, dir, "n1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(id *identity) { id.Initialised = true }); err == nil || s.get().Initialised {
		t.Fatalf("error %v, initialised %v", err, s.get().Initialised)
	}
}

func TestIdentityRefusals(t *testing.T) {
	t.Parallel()
	open := func(dir, id string) error {
		_, err := openIdentity(dir, id, "", threeMembers, rand.Reader)
		return err
	}
	t.Run("another node's directory", func(t *testing.T) {
		dir := t.TempDir()
		mustIdentity(t, dir, "n1")
		wantHalt(t, open(dir, "n2"), ExitRefused, "belongs to node n1, not to n2")
	})
	t.Run("data without an identity", func(t *testing.T) {
		for _, name := range []string{raftFile, walDir, snapshotsDir} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			wantHalt(t, open(dir, "n1"), ExitRefused, "holds "+name+" but no identity.json")
			if _, err := os.Stat(filepath.Join(dir, identityFile)); err == nil {
				t.Fatal("an identity was made all the same")
			}
		}
	})
	t.Run("list put right before the first start", func(t *testing.T) {
		dir := t.TempDir()
		instance := mustIdentity(t, dir, "n1").get().Instance
		list := []Member{{"n1", "h1:1"}, {"n2", "h2:2"}}
		s, err := openIdentity(dir, "n1", "", list, rand.Reader)
		if err != nil || !cmp.Equal(s.get().Members, list) || s.get().Instance != instance {
			t.Fatal(err, s.get())
		}
		if err := s.update(func(id *identity) { id.Initialised = true }); err != nil {
			t.Fatal(err)
		}
		// After it a changed list is a mistake: somebody believes that it counts.
		_, err = openIdentity(dir, "n1", "", threeMembers, rand.Reader)
		wantHalt(t, err, ExitRefused, "members cannot be changed yet")
		if _, err := openIdentity(dir, "n1", "", list, rand.Reader); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("initialised, nothing stored", func(t *testing.T) {
		id := identity{NodeID: "n2", Initialised: true}
		wantHalt(t, checkState(id, false), ExitRefused, "n2 has started before, but its raft.db is empty")
		for _, ok := range []error{checkState(id, true), checkState(identity{}, false), checkState(identity{}, true)} {
			if ok != nil {
				t.Error(ok)
			}
		}
	})
}

// Each cut and each flipped bit of identity.json is refused, or is harmless.
func TestIdentityDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustIdentity(t, dir, "n1")
	if err := s.update(func(id *identity) { id.Initialised, id.Instances["n2"] = true, "abc" }); err != nil {
		t.Fatal(err)
	}
	want := s.get()
	good, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(b []byte, what string, at int) {
		if err := os.WriteFile(s.path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := openIdentity(dir, "n1", "", threeMembers, rand.Reader)
		if err == nil && !cmp.Equal(got.get(), want) {
			t.Fatalf("%s %d: believed: %s", what, at, cmp.Diff(want, got.get()))
		}
		if err != nil {
			wantHalt(t, err, ExitRefused, "is damaged")
		}
	}
	for i := range good {
		try(good[:i], "cut at", i)
		for _, bit := range []int{i % 8, (i + 5) % 8} {
			b := append([]byte(nil), good...)
			b[i] ^= 1 << bit
			try(b, "flip at", i*8+bit)
		}
	}
}
