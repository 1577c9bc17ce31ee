package chaos

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedStarts makes a few of the damaged starts that scripts/chaos.sh ci
// makes a thousand of.
func TestDamagedStarts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs real nodes for seconds")
	}
	binary, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	r, err := DamageRun(t.Context(), DamageConfig{Binary: binary, Times: 12, Seed: 3, Dir: t.TempDir(), Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Pass() || r.Harmless == 0 {
		t.Errorf("%s: %q, %q", r.Verdict(), r.Wrong, r.Silent)
	}
}

// TestADamageReportBarks: one wrong answer fails a run, and so does a node
// that neither serves nor ends, and a run in which nothing was refused: the damage did not bite.
func TestADamageReportBarks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r    DamageReport
		pass bool
	}{
		"good":                   {DamageReport{Times: 3, Refused: 1, Harmless: 2}, true},
		"a wrong answer":         {DamageReport{Times: 3, Refused: 1, Harmless: 1, Wrong: []string{"w"}}, false},
		"nothing was refused":    {DamageReport{Times: 3, Harmless: 3}, false},
		"one is not accounted":   {DamageReport{Times: 3, Refused: 1, Harmless: 1}, false},
		"one neither way, quiet": {DamageReport{Times: 3, Refused: 1, Harmless: 1, Silent: []string{"s"}}, false},
		"and not of the number":  {DamageReport{Times: 3, Refused: 1, Harmless: 2, Silent: []string{"s"}}, false},
	} {
		if c.r.Pass() != c.pass {
			t.Errorf("%s: %s", name, c.r.Verdict())
		}
	}
}

// TestFlipsHitWhatIsWritten: most of a segment is space for later entries, and a
// bit flipped there is no damage.
func TestFlipsHitWhatIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "00000000000000000001-0000000000000000.wal")
	segment := make([]byte, 1<<20)
	copy(segment, bytes.Repeat([]byte("entry"), 20))
	for seed := range uint64(50) {
		if err := os.WriteFile(path, segment, 0o600); err != nil {
			t.Fatal(err)
		}
		what, err := flipBits(path, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b[100:], segment[100:]) {
			t.Errorf("seed %d, %s: behind what is written", seed, what)
		}
	}
}
