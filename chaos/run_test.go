package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// builtBinary is the product, built once.
var builtBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "onced-chaos-test-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "onced")
	out, err := exec.Command("go", "build", "-o", binary, "../cmd/onced").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return binary, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := builtBinary(); err == nil {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// TestRun makes a short run on real nodes, and holds its report together.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real nodes for seconds")
	}
	dir := t.TempDir()
	binary, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	faults, err := ParseFaults("kill,pause,isolate,reset,restart")
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(context.Background(), Config{
		Binary: binary, Nodes: 3, For: 6 * time.Second, Faults: faults, Workload: Mixed, Clients: 12, Seed: 1, Dir: dir, Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range report.Reasons {
		t.Error(reason)
	}
	if !report.Pass || report.Operations < 100 || len(report.Faults) == 0 || report.Audited == 0 || report.Fills == 0 || report.Hashes == 0 {
		t.Errorf("%s: audited %d, filled %d, compared %d", report.Verdict(), report.Audited, report.Fills, report.Hashes)
	}
	form := regexp.MustCompile(`^(PASS|FAIL) seed=\d+ operations=\d+ faults=\d+ double_grants=\d+ lost_outcomes=\d+ differing_replays=\d+ linearizable=(yes|no|undecided) longest_gap_ms=\d+$`)
	if !form.MatchString(report.Verdict()) {
		t.Errorf("the verdict has another form: %s", report.Verdict())
	}
	// What is kept can be checked again, and comes to the same.
	again, err := CheckAgain(t.Context(), dir, Limits{})
	if err != nil || !again.Pass || again.Operations != report.Operations {
		t.Errorf("checked again: %+v, %v", again, err)
	}
	// Of a history in which an outcome was changed the check says so.
	ops, err := ReadHistory(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ops {
		if o.Fate == Known && o.Answer.Says == "replayed" && o.NS == "orders" {
			o.Answer.Record.Response = `{"fill":0}`
			break
		}
	}
	fills, err := ReadLedger(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	f := Check(t.Context(), ops, fills, Limits{})
	if f.Linearizable || len(f.Unexplained) != 1 {
		t.Errorf("a changed outcome was not noticed: %v", f.Reasons)
	}
	picture := filepath.Join(dir, "picture.html")
	if err := draw(t.Context(), picture, f.Unexplained[0]); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(picture); err != nil || info.Size() < 1000 {
		t.Errorf("no picture: %v", err)
	}
}
