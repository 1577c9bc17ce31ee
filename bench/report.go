package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figure writes a figure with three digits, or with all before the point.
func figure(f float64) string {
	switch {
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case f >= 1:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'f', 3, 64)
}

// Text gives the figures for people.
func (r *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d clients, %s s\n\n", r.Workload, r.Clients, figure(r.Seconds))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "operations\t%d\t%s a second\n", r.Operations, figure(r.OpsPerSecond))
	r.LatencyMs.line(w, "latency ms")
	if r.WithoutStorm != nil {
		r.WithoutStorm.LatencyMs.line(w, "without storm")
		fmt.Fprintf(w, "p99 with storm\t%s times that without\n", ratio(r.LatencyMs.P99, r.WithoutStorm.LatencyMs.P99))
	}
	if s := r.Storm; s != nil {
		fmt.Fprintf(w, "storm\t%d keys\t%d grants\t%d of them double\n", s.Keys, s.Grants, s.DoubleGrants)
	}
	if r.ClientCpuUs > 0 {
		fmt.Fprintf(w, "CPU us for each\tclient %s\t", figure(r.ClientCpuUs))
		if r.ServerCpuUs > 0 {
			fmt.Fprintf(w, "servers %s", figure(r.ServerCpuUs))
		}
		fmt.Fprintln(w)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "error\t%s\t%d\n", code, r.Errors[code])
	}
	if len(r.Errors) == 0 {
		fmt.Fprintln(w, "errors\tnone")
	}
	w.Flush()
	return b.String()
}

func (l *Latency) line(w *tabwriter.Writer, name string) {
	fmt.Fprintf(w, "%s\tp50 %s\tp90 %s\tp99 %s\tp99.9 %s\tmax %s\n", name,
		figure(l.P50), figure(l.P90), figure(l.P99), figure(l.P999), figure(l.Max))
}

func ratio(now, before float64) string {
	if before == 0 {
		return "-"
	}
	return strconv.FormatFloat(now/before, 'f', 2, 64)
}

// Compared gives r's figures beside those of an earlier run, and how many times
// the earlier ones they are.
func (r *Result) Compared(before *Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tbefore\tnow\tratio\t")
	for _, f := range []struct {
		name        string
		before, now float64
	}{
		{"operations a second", before.OpsPerSecond, r.OpsPerSecond},
		{"p50 ms", before.LatencyMs.P50, r.LatencyMs.P50},
		{"p90 ms", before.LatencyMs.P90, r.LatencyMs.P90},
		{"p99 ms", before.LatencyMs.P99, r.LatencyMs.P99},
		{"p99.9 ms", before.LatencyMs.P999, r.LatencyMs.P999},
		{"max ms", before.LatencyMs.Max, r.LatencyMs.Max},
		{"client CPU us for each", before.ClientCpuUs, r.ClientCpuUs},
		{"servers CPU us for each", before.ServerCpuUs, r.ServerCpuUs},
	} {
		if f.before == 0 && f.now == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", f.name, figure(f.before), figure(f.now), ratio(f.now, f.before))
	}
	w.Flush()
	if before.Workload != r.Workload || before.Clients != r.Clients {
		fmt.Fprintf(&b, "\nnot the same load: %s with %d clients before, %s with %d now\n", before.Workload, before.Clients, r.Workload, r.Clients)
	}
	return b.String()
}
