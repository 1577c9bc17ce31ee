package bench

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func someResult() *Result {
	return &Result{
		Workload: "lifecycle", Clients: 64, Seconds: 8.003, Operations: 40_960, OpsPerSecond: 5118.08,
		Errors:    map[string]int64{"not_sent": 3, "idempotency_unavailable": 1},
		LatencyMs: Latency{P50: 11.9, P90: 18.2, P99: 25.1, P999: 40.9, Max: 61.3}, ClientCpuUs: 41.5, ServerCpuUs: 190.25,
	}
}

// The JSON is what programs read and what --compare takes: a member that
// changes its name breaks them.
func TestResultJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    *Result
		want string
	}{
		{someResult(), `{"workload":"lifecycle","clients":64,"seconds":8.003,"operations":40960,"opsPerSecond":5118.08,` +
			`"errors":{"idempotency_unavailable":1,"not_sent":3},"latencyMs":{"p50":11.9,"p90":18.2,"p99":25.1,"p99.9":40.9,"max":61.3},` +
			`"clientCpuUs":41.5,"serverCpuUs":190.25}`},
		{&Result{Workload: "storm", Errors: map[string]int64{}, Storm: &StormCount{Keys: 2, Grants: 1}}, `{"workload":"storm","clients":0,"seconds":0,` +
			`"operations":0,"opsPerSecond":0,"errors":{},"latencyMs":{"p50":0,"p90":0,"p99":0,"p99.9":0,"max":0},"storm":{"keys":2,"grants":1,"doubleGrants":0}}`},
	} {
		got, err := json.Marshal(c.r, json.Deterministic(true))
		if err != nil || string(got) != c.want {
			t.Errorf("%v\n got %s\nwant %s", err, got, c.want)
		}
		var back Result
		if err := json.Unmarshal(got, &back); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(c.r, &back); d != "" {
			t.Error(d)
		}
	}
}

func TestResultText(t *testing.T) {
	t.Parallel()
	r := someResult()
	r.Errors = map[string]int64{}
	r.Storm = &StormCount{Keys: 120, Grants: 119}
	r.WithoutStorm = &Result{LatencyMs: Latency{P99: 12.55}}
	want := `lifecycle, 64 clients, 8.00 s

operations       40960      5118 a second
latency ms       p50 11.9   p90 18.2   p99 25.1  p99.9 40.9   max 61.3
without storm    p50 0.000  p90 0.000  p99 12.6  p99.9 0.000  max 0.000
p99 with storm   2.00 times that without
storm            120 keys     119 grants  0 of them double
CPU us for each  client 41.5  servers 190
errors           none
`
	if d := cmp.Diff(want, r.Text()); d != "" {
		t.Error(d)
	}
	if text := someResult().Text(); !strings.Contains(text, "error            not_sent") {
		t.Error(text)
	}
}

func TestCompared(t *testing.T) {
	t.Parallel()
	before, now := someResult(), someResult()
	now.OpsPerSecond *= 2
	now.LatencyMs.P50 /= 4
	now.ServerCpuUs = 0
	now.Clients = 32
	got := now.Compared(before)
	for _, want := range []string{
		"operations a second    5118  10236   2.00", "p50 ms    11.9   2.98   0.25", "max ms    61.3   61.3   1.00",
		"servers CPU us for each     190  0.000   0.00", "not the same load: lifecycle with 64 clients before, lifecycle with 32 now",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if same := before.Compared(before); strings.Contains(same, "not the same load") {
		t.Error(same)
	}
}

func TestSLO(t *testing.T) {
	t.Parallel()
	r := someResult()
	for _, c := range []struct{ slo, missed string }{
		{"p99<26ms", ""},
		{"p99<25.1ms", "p99<25.1ms: p99 was 25.1 ms"}, // at the bound is not below it
		{" p50 < 12ms , max<1s, opsPerSecond > 5000", ""},
		{"p50<11ms", "p50<11ms: p50 was 11.9 ms"},
		{"p90<1s,p99.9<40ms", "p99.9<40ms: p99.9 was 40.9 ms"},
		{"max<60ms", "max<60ms: max was 61.3 ms"},
		{"opsPerSecond>6000", "opsPerSecond>6000: 5118 were done a second"},
	} {
		all, err := ParseSLO(c.slo)
		if err != nil {
			t.Error(err)
		}
		missed := ""
		for _, o := range all {
			missed += o.Missed(r)
			if o.Missed(&Result{}) == "" {
				t.Errorf("%s is met by nothing", c.slo)
			}
		}
		if missed != c.missed {
			t.Errorf("%s: %q, want %q", c.slo, missed, c.missed)
		}
	}
	for _, bad := range []string{"", "p99", "p99>8ms", "p98<8ms", "p99<8", "p99<0s", "p99<-1ms", "opsPerSecond<5", "opsPerSecond>x", "opsPerSecond>NaN", "p99<8ms,", "p99<=8ms"} {
		if all, err := ParseSLO(bad); err == nil {
			t.Errorf("%q is %+v", bad, all)
		}
	}
}
