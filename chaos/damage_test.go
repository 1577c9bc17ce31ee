package chaos

import (
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
		t.Errorf("%s: %q", r.Verdict(), r.Wrong)
	}
}

// TestADamageReportBarks: one wrong answer fails a run, and so does a run in
// which nothing was refused: the damage did not bite.
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
		"one neither way, quiet": {DamageReport{Times: 3, Refused: 1, Harmless: 1, Silent: 1}, true},
	} {
		if c.r.Pass() != c.pass {
			t.Errorf("%s: %s", name, c.r.Verdict())
		}
	}
}
