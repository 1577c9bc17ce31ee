package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	m, err := parseMetrics(`# HELP onced_records Records.
# TYPE onced_records gauge
onced_records{namespace="a b",status="committed"} 7
onced_records{namespace="default",status="expired"} 3
onced_records_other 100
onced_term 2
go_memstats_alloc_bytes 1.114592e+06
`)
	if err != nil {
		t.Fatal(err)
	}
	if m["onced_term"] != 2 || m["go_memstats_alloc_bytes"] != 1114592 || m.sum("onced_records") != 10 {
		t.Errorf("%v", m)
	}
	for _, bad := range []string{"word", "onced_term two"} {
		if _, err := parseMetrics(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestLiveHeap(t *testing.T) {
	t.Parallel()
	node := func(next, percent, allocated, limit, last float64) metrics {
		return metrics{
			"go_memstats_next_gc_bytes": next, "go_gc_gogc_percent": percent, "go_memstats_heap_alloc_bytes": allocated,
			"go_gc_gomemlimit_bytes": limit, "go_memstats_last_gc_time_seconds": last,
		}
	}
	for name, tc := range map[string]struct {
		m    metrics
		want float64
	}{
		"default GOGC":             {node(200, 100, 150, 1e6, 1), 100},
		"lazier":                   {node(500, 400, 450, 1e6, 1), 100},
		"nothing was garbage":      {node(500, 100, 90, 1e6, 1), 90},
		"the limit has a say":      {node(960, 400, 450, 1000, 1), 450},
		"no collection until now":  {node(200, 100, 150, 1e6, 0), 150},
		"collections switched off": {node(200, -1, 150, 1e6, 1), 150},
	} {
		if got := tc.m.liveHeap(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestReached(t *testing.T) {
	t.Parallel()
	var all table
	all.add("", 1, times, "")
	all.target("", "", 10, times, 20, 10, "")
	all.target("", "", 20, times, 20, 10, "")
	all.target("", "", 20.1, times, 20, 10, "")
	all.floor("", "", 1, times, 0.9, 1, "")
	all.floor("", "", 0.9, times, 0.9, 1, "")
	all.floor("", "", 0.89, times, 0.9, 1, "")
	var got []string
	for _, f := range all.figures {
		got = append(got, f.reached())
	}
	if want := []string{"", "aim", "accept", "no", "aim", "accept", "no"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	var all table
	all.add("W1", 12345.6, perSecond, "a note")
	all.target("G20", "gap", 2.111, times, 2.5, 2, "")
	all.floor("G24", "rate", 0.5, times, 0.9, 1, "")
	want := `Where.

| target | figure | measured | accept | aim | reached | |
|---|---|---:|---:|---:|---|---|
|  | W1 | 12,346/s |  |  |  | a note |
| G20 | gap | 2.11x | ≤ 2.50x | ≤ 2.00x | accept |  |
| G24 | rate | 0.5x | ≥ 0.9x | ≥ 1.00x | no |  |
`
	if got := all.markdown("Where."); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		v    float64
		u    unit
		want string
	}{
		{1234567, count, "1,234,567"},
		{0, count, "0"},
		{999.6, milliseconds, "1,000 ms"},
		{12.34, milliseconds, "12.3 ms"},
		{0.01234, seconds, "0.0123 s"},
		{286, bytesEach, "286 B"},
	} {
		if got := number(tc.v, tc.u); got != tc.want {
			t.Errorf("%v %s: %s, want %s", tc.v, tc.u, got, tc.want)
		}
	}
	for n, want := range map[int]string{10_000: "10k", 1_000_000: "1M", 2_500_000: "2.5M", 1234: "1234"} {
		if got := sized(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	of := func() []float64 { return []float64{5, 1, 4, 2, 3} }
	if median(of()) != 3 || quantile(of(), 1) != 5 || quantile(of(), 0.2) != 1 || quantile(of(), 0) != 1 || quantile(of(), 0.81) != 5 || median([]float64{2, 1}) != 1 || median([]float64(nil)) != 0 {
		t.Error("wrong quantiles")
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	if got, err := numbers("1, 3,5", 1, 9); err != nil || !slices.Equal(got, []int{1, 3, 5}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "10", "3,1", "3,3", "x"} {
		if got, err := numbers(bad, 1, 9); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	k := &calls{}
	for _, c := range []struct {
		began, took int
		err         error
	}{{0, 10, nil}, {95, 10, nil}, {150, 5, nil}, {195, 40, nil}, {300, 7, nil}, {310, 1, errors.New("no")}} {
		k.all = append(k.all, call{at(c.began), time.Duration(c.took) * time.Millisecond, c.err})
	}
	during, beside, failed := k.split([]span{{at(100), at(200)}})
	if len(during) != 3 || len(beside) != 2 || failed != 1 {
		t.Errorf("during %v, beside %v, failed %d", during, beside, failed)
	}
	// Successes end at 10, 105, 155, 235 and 307.
	if got := k.longestGap(span{at(0), at(320)}); got != 95*time.Millisecond {
		t.Errorf("gap %s", got)
	}
	if got := k.longestGap(span{at(306), at(500)}); got != 193*time.Millisecond {
		t.Errorf("gap to the end %s", got)
	}
}

func TestSnapshotTimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	began := time.UnixMilli(1796077115882)
	for name, took := range map[string]time.Duration{"2-100-1796077115882": 1500 * time.Millisecond, "2-50-1796077000000": time.Second, "2-120-1796077119000.tmp": time.Second} {
		meta := filepath.Join(dir, name, "meta.json")
		if err := os.MkdirAll(filepath.Dir(meta), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(meta, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(meta, began.Add(took), began.Add(took)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := snapshotWrites(dir, began.Add(-time.Second))
	if err != nil || !slices.Equal(got, []float64{1.5}) {
		t.Errorf("writes %v, %v", got, err)
	}

	log := filepath.Join(dir, "log")
	err = os.WriteFile(log, []byte(`time=2026-11-30T22:18:00.000Z level=INFO msg="starting snapshot up to" node=n1 component=raft index=9
time=2026-11-30T22:18:00.500Z level=INFO msg="snapshot complete up to" node=n1 component=raft index=9
time=2026-11-30T22:18:33.908Z level=INFO msg="starting snapshot up to" node=n1 component=raft index=100
onced devel: node n1
time=2026-11-30T22:18:34.908Z level=INFO msg="snapshot complete up to" node=n1 component=raft index=100
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	since, _ := time.Parse(time.RFC3339, "2026-11-30T22:18:10Z")
	spans, err := snapshotSpans(log, since)
	if err != nil || len(spans) != 1 || spans[0].to.Sub(spans[0].from) != time.Second {
		t.Errorf("spans %v, %v", spans, err)
	}
}

func TestWriteDocument(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + block(blockName, "old\n") + "\nbetween\n" + block("other", "kept\n") + "\nafter\n")
	if err := writeDocument(file, "new $1\n"); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(file)
	if want := "before\n" + block(blockName, "new $1\n") + "\nbetween\n" + block("other", "kept\n") + "\nafter\n"; string(got) != want {
		t.Errorf("got\n%s", got)
	}
	write("no block")
	if err := writeDocument(file, "new\n"); err == nil {
		t.Error("written into a document without a place for it")
	}
}

// TestDocument holds that the table in docs/BENCHMARKS.md is as a run wrote it.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/BENCHMARKS.md")
	if err != nil {
		t.Fatal(err)
	}
	found := blockPattern.FindAllString(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%d blocks", len(found))
	}
	_, body, _ := strings.Cut(found[0], "\n")
	if found[0] != block(blockName, strings.TrimSuffix(body, "<!-- /bench -->")) {
		t.Error("the table was changed by hand: run scripts/bench.sh scale again")
	}
}

func TestApplied(t *testing.T) {
	m, err := parseMetrics(`onced_apply_duration_seconds_bucket{entry="sweep",le="0.001"} 90
onced_apply_duration_seconds_bucket{entry="sweep",le="0.005"} 99
onced_apply_duration_seconds_bucket{entry="sweep",le="+Inf"} 100
onced_apply_duration_seconds_bucket{entry="other",le="0.001"} 7
`)
	if err != nil {
		t.Fatal(err)
	}
	a := m.applied("sweep")
	for q, want := range map[float64]float64{0.5: 0.001, 0.99: 0.005, 1: math.Inf(1)} {
		if got := a.quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	before := applied{0.001: 90, 0.005: 90, math.Inf(1): 90}
	if a.add(before, -1); a.quantile(0.5) != 0.005 || a[math.Inf(1)] != 10 {
		t.Errorf("what came later: %v", a)
	}
	if got := (applied{0.001: 0, math.Inf(1): 0}).quantile(0.99); !math.IsInf(got, 1) {
		t.Errorf("nothing measured reaches %v", got)
	}
}

func TestSweepSize(t *testing.T) {
	for list, want := range map[string]int{"1000000,5000000": 1_000_000, "10000,1000000": 1_000_000, "10000": 10_000, "2000000,5000000": 2_000_000} {
		var p plan
		if err := p.set(list, "3", "", nil); err != nil {
			t.Fatal(err)
		}
		if got := p.sweepSize(); got != want {
			t.Errorf("%s: %d", list, got)
		}
	}
}
