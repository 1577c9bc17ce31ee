package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSystems starts each system that is installed and has it do each of its
// works for a moment, at few clients: that they are done rightly, not how fast.
func TestSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	bin := filepath.Join(t.TempDir(), "onced")
	needs := map[string]func() error{
		nameOnced:    func() error { return nil },
		nameOncedWAL: func() error { return nil },
		nameEtcd:     func() error { _, err := exec.LookPath("etcd"); return err },
		nameRedis:    func() error { _, err := exec.LookPath("redis-server"); return err },
		namePostgres: func() error { _, err := postgresBin(); return err },
	}
	systems := map[string]system{
		nameOnced:    &onced{name: nameOnced, store: "bolt", bin: bin},
		nameOncedWAL: &onced{name: nameOncedWAL, store: "wal", bin: bin},
		nameEtcd:     &etcd{}, nameRedis: &redis{}, namePostgres: &postgres{},
	}
	for _, name := range systemNames {
		t.Run(name, func(t *testing.T) {
			if err := needs[name](); err != nil {
				t.Skipf("%s is not installed: %v", name, err)
			}
			if _, isOnced := systems[name].(*onced); isOnced {
				if out, err := exec.Command("go", "-C", "../..", "build", "-o", bin, "./cmd/onced").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			s := systems[name]
			t.Cleanup(s.end)
			if err := s.begin(t.Context(), serverDir(t)); err != nil {
				t.Fatal(err)
			}
			if f := s.facts(); f.Version == "" || strings.Contains(f.Version, " ") {
				t.Errorf("version %q", f.Version)
			}
			done := map[work]bool{}
			for _, step := range plan {
				for _, turn := range step.turnsOf([]string{name}, 0) {
					if done[turn.work] {
						continue
					}
					done[turn.work] = true
					f, err := measure(t.Context(), s, turn.work, 4, timing{measured: 100 * time.Millisecond}, nil, 1)
					if err != nil || len(f.Errors) > 0 {
						t.Errorf("%s: %v, %v", turn.work, err, f.Errors)
					}
				}
			}
		})
	}
}

// serverDir is a directory that PostgreSQL's user can reach too.
func serverDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o755)
	}
	return dir
}

func TestWhatIsLaunchedIsEnded(t *testing.T) {
	p, err := launch(t.TempDir(), "deaf", nil, "sh", "-c", "echo started; sleep 1000 & wait")
	if err != nil {
		t.Fatal(err)
	}
	if err := await(t.Context(), "deaf", []*process{p}, func(context.Context) error {
		if said, err := os.ReadFile(p.log); err != nil || len(said) == 0 {
			return fmt.Errorf("silent: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(); err != nil {
		t.Fatal(err)
	}
	stop(syscall.SIGTERM, p)
	if err := p.ended(); err == nil || !strings.Contains(err.Error(), "started") {
		t.Errorf("it runs, or does not tell what it said: %v", err)
	}
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL) // its sleep, in the same group
}

func TestTreeCPU(t *testing.T) {
	before, err := treeCPU([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	// A child that is reaped counts as well.
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	after, err := treeCPU([]int{os.Getpid()})
	if err != nil || after <= before {
		t.Errorf("%v, then %v: %v", before, after, err)
	}
	if _, err := treeCPU([]int{-1}); err == nil {
		t.Error("a process that is not there has a time")
	}
}

// TestTreeCPUNeverFalls reads while children end and are reaped: each counts
// once, before and after.
func TestTreeCPUNeverFalls(t *testing.T) {
	const child = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 {
			_ = exec.Command("sh", "-c", child).Run()
		}
	}()
	last := time.Duration(0)
	for {
		now, err := treeCPU([]int{os.Getpid()})
		if err != nil || now < last {
			t.Fatalf("%v after %v: %v", now, last, err)
		}
		last = now
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestMeter(t *testing.T) {
	m := &meter{disk: &device{}, samples: []sample{
		{at: time.Unix(10, 0), server: 3 * time.Second, busy: 7 * time.Second, flushes: 100},
		{at: time.Unix(12, 0), server: 4 * time.Second, busy: 10 * time.Second, flushes: 150},
	}}
	f := figure{ClientCPU: 5000}
	if err := m.fill(&f, 100, 2); err != nil || f.ServerCPU != 10000 || f.Flushes != 0.5 || f.OtherCPU != 0.375 {
		t.Errorf("%+v, %v", f, err)
	}
	m.samples[1].server = 0
	if err := m.fill(&f, 100, 2); err == nil {
		t.Error("a time that fell is taken")
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c)) S 7 1 1 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 100 1 1"
	if got, err := parseStat([]byte(line)); err != nil || got != (stat{42, 7, 30, 70}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 7"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestFlushesIn(t *testing.T) {
	const stats = " 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 58642 8247 2410186 11887 9057 15031 1916568 6885 0 5800 18988 1726 0 419976 168 1362 46\n 8 0 old 1 2 3\n"
	if n, err := flushesIn(stats, "vda"); err != nil || n != 1362 {
		t.Errorf("%d, %v", n, err)
	}
	for _, name := range []string{"old", "vdb"} {
		if _, err := flushesIn(stats, name); err == nil {
			t.Errorf("%s has flushes", name)
		}
	}
}

func TestMemoryIsNoDisk(t *testing.T) {
	if _, err := nameFileSystem("/x", 0x01021994); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("tmpfs: %v", err)
	}
	for magic, want := range map[int64]string{0xEF53: "ext4", 1: "file system 0x1"} {
		if got, err := nameFileSystem("/x", magic); err != nil || got != want {
			t.Errorf("%#x: %q, %v", magic, got, err)
		}
	}
}

func TestBusyIn(t *testing.T) {
	// user nice system idle iowait irq softirq steal
	if got, err := busyIn("cpu  100 10 50 9999 9999 5 35 77 0 0\ncpu0 1\n"); err != nil || got != 2*time.Second {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := busyIn("intr 1"); err == nil {
		t.Error("a line of another kind is read")
	}
}

func TestFreshKeys(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		k := freshKey()
		if len(k) != keyBytes || seen[k] || seen[claim(k)] {
			t.Fatalf("%q has %d bytes, or was given before", k, len(k))
		}
		seen[k], seen[claim(k)] = true, true
	}
	if len(response) != valueBytes {
		t.Errorf("a response has %d bytes", len(response))
	}
}

func TestRESP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		var lines []string
		for range 5 {
			line, _ := in.ReadString('\n')
			lines = append(lines, line)
		}
		got <- strings.Join(lines, "")
		fmt.Fprint(c, "+OK\r\n:7\r\n$3\r\na\r\n\r\n$-1\r\n-ERR no\r\n*0\r\n")
	}()
	c, err := dialRESP(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	first, err := c.call(t.Context(), "GET", "key")
	if sent := <-got; sent != "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n" {
		t.Errorf("sent %q", sent)
	}
	answers := []string{fmt.Sprint(first, err)}
	for range 5 {
		answers = append(answers, fmt.Sprint(c.reply()))
	}
	want := []string{"OK<nil>", "7<nil>", "a\r\n<nil>", "nil", "ERR no", "an answer of kind '*'"}
	if !slices.Equal(answers, want) {
		t.Errorf("%q", answers)
	}
}

// TestEveryTargetIsMeasured fails on a target that asks for what no round holds,
// and when the log that syncs once is not held against those it is made for.
func TestEveryTargetIsMeasured(t *testing.T) {
	r := results{limits: []limit{{Name: limitF, P50: 1}}}
	for _, s := range plan {
		for _, turn := range s.turns {
			r.figures = append(r.figures, figure{System: turn.system, Work: turn.work, Clients: s.clients, OpsPerSecond: 2, P50: 2, ServerCPU: 2, Flushes: 2})
		}
	}
	withWAL := []string{"G1", "G2", "G5", "G6", "G7", "G12", "G13"}
	for _, x := range targets {
		if v := x.value(r, nameOnced); math.IsNaN(v) {
			t.Errorf("%s, %s is not measured", x.ID, x.What)
		}
		if v := x.value(r, nameOncedWAL); math.IsNaN(v) == slices.Contains(withWAL, x.ID) {
			t.Errorf("%s, %s with --log-store wal: %v", x.ID, x.What, v)
		}
		if x.Aim > 0 && (x.Aim < x.Accept) != x.LowerIsBetter && x.Aim != x.Accept {
			t.Errorf("%s, %s: to aim at %v is no more than to accept %v", x.ID, x.What, x.Aim, x.Accept)
		}
		if v := x.judge([]results{{}}, nameOnced); v.Reached != "" {
			t.Errorf("%s is reached without a figure", x.ID)
		}
	}
}

// TestTargetTable has both log stores in one line, each with its own verdict.
func TestTargetTable(t *testing.T) {
	figures := []figure{
		{System: nameOnced, Work: guard, Clients: 64, OpsPerSecond: 20},
		{System: nameOncedWAL, Work: guard, Clients: 64, OpsPerSecond: 50},
		{System: nameEtcd, Work: guard, Clients: 64, OpsPerSecond: 10},
		{System: nameOnced, Work: dupBatch, Clients: 16, OpsPerSecond: 9},
		{System: nameRedis, Work: dupBatch, Clients: 16, OpsPerSecond: 10},
	}
	table := (&report{Floors: [][]limit{{}}, Figures: figures}).targetTable()
	for _, line := range []string{
		"| bolt (default) | reached | wal | reached |\n",
		"| **2 x**, 2 to 2 | no | **5 x**, 5 to 5 | aim |\n",
		"| **0.9 x**, 0.9 to 0.9 | aim | – | – |\n",
	} {
		if !strings.Contains(table, line) {
			t.Errorf("no %sin\n%s", line, table)
		}
	}
}

func TestJudge(t *testing.T) {
	more := target{Accept: 3, Aim: 5}
	less := target{Accept: 3, Aim: 1, LowerIsBetter: true}
	for _, c := range []struct {
		t      target
		values []float64
		median float64
		want   string
	}{
		{more, []float64{9, 5, 1}, 5, "aim"},
		{more, []float64{4.9, 4.9}, 4.9, "accept"},
		{more, []float64{2, 2, 9}, 2, "no"},
		{less, []float64{1}, 1, "aim"},
		{less, []float64{4, 1, 2}, 2, "accept"},
		{less, []float64{3, 4}, 3.5, "no"},
		{target{Accept: 3}, []float64{9}, 9, "accept"},
		{more, []float64{math.NaN(), 4}, 4, "accept"},
	} {
		rounds := make([]results, len(c.values))
		for i, v := range c.values {
			rounds[i].figures = []figure{{OpsPerSecond: v}}
		}
		c.t.value = func(r results, _ string) float64 { return r.figures[0].OpsPerSecond }
		if v := c.t.judge(rounds, nameOnced); v.Reached != c.want || v.Median != c.median {
			t.Errorf("%v: %+v, want %s", c.values, v, c.want)
		}
	}
}

func TestTurns(t *testing.T) {
	s := step{1, []turn{{"a", guard}, {"b", guard}, {"c", guard}}}
	for round, want := range []string{"a c", "c a", "a c"} {
		var got []string
		for _, x := range s.turnsOf([]string{"c", "a"}, round) {
			got = append(got, x.system)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("round %d: %v", round, got)
		}
	}
	if s.turnsOf([]string{"d"}, 1) != nil {
		t.Error("a system that takes no part has a turn")
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123: "0.0123", 0.25: "0.25", 1.5: "1.5", 12.34: "12.3", 123.4: "123", 1234567: "1,234,567", -1234: "-1,234", 999.6: "1,000"} {
		if got := short(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

const benchmarks = "../../docs/BENCHMARKS.md"

// TestTheTablesAreTheCommands fails when a table of the document was changed by
// hand, or has no place.
func TestTheTablesAreTheCommands(t *testing.T) {
	text, err := os.ReadFile(benchmarks)
	if err != nil {
		t.Fatal(err)
	}
	names, err := checkDocument(string(text))
	if err != nil {
		t.Error(err)
	}
	for _, b := range (&report{Floors: [][]limit{{}}}).blocks() {
		if !slices.Contains(names, b.name) {
			t.Errorf("no place for %s", b.name)
		}
	}
}

func TestDocumentBarks(t *testing.T) {
	out, err := intoDocument("before\n"+block("a", "")+"\nafter", "a", "| 1 |\n")
	if err != nil {
		t.Fatal(err)
	}
	if names, err := checkDocument(out); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("%v, %v", names, err)
	}
	for _, bad := range []string{strings.Replace(out, "| 1 |", "| 2 |", 1), strings.Replace(out, "<!-- /bench -->", "", 1)} {
		if _, err := checkDocument(bad); err == nil {
			t.Errorf("nothing found in %s", bad)
		}
	}
	if _, err := intoDocument(out, "b", ""); err == nil {
		t.Error("a block that is not there is written")
	}
}
