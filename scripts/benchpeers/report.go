package main

import (
	"fmt"
	"math"
	"strings"
)

// report is a whole run, as it is kept in a file and made into tables.
type report struct {
	Date    string      `json:"date"`
	Commit  string      `json:"commit"`
	Machine machine     `json:"machine"`
	Rounds  int         `json:"rounds"`
	Seconds float64     `json:"seconds"` // of each measurement
	Warmup  float64     `json:"warmup"`
	Systems []facts     `json:"systems"`
	Figures []figure    `json:"figures"`
	Floors  [][]limit   `json:"floors"` // by round
	Idle    []idleUsage `json:"idle"`
	// IdleFlushes are those a second while all systems run and none is asked;
	// below 0: not counted.
	IdleFlushes float64 `json:"idleFlushes"`
	Flushes     string  `json:"flushes"` // how they were counted, or why not
}

// idleUsage is what a system takes while it is not asked.
type idleUsage struct {
	System string  `json:"system"`
	CPU    float64 `json:"cpu"` // of one core
}

// rounds groups the figures for the targets.
func (r *report) rounds() []results {
	all := make([]results, len(r.Floors))
	for i := range all {
		all[i].limits = r.Floors[i]
	}
	for _, f := range r.Figures {
		if f.Round < len(all) {
			all[f.Round].figures = append(all[f.Round].figures, f)
		}
	}
	return all
}

// targetTable holds the figures against the targets, for each log store.
func (r *report) targetTable() string {
	var b strings.Builder
	b.WriteString("| target | figure | accept | aim | bolt (default) | reached | wal | reached |\n|---|---|---|---|---|---|---|---|\n")
	rounds := r.rounds()
	for _, t := range targets {
		sign := "≥ "
		if t.LowerIsBetter {
			sign = "≤ "
		}
		aim := "–"
		if t.Aim > 0 {
			aim = sign + with(t.Aim, t.Unit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", t.ID, t.What, sign+with(t.Accept, t.Unit), aim)
		for _, onced := range []string{nameOnced, nameOncedWAL} {
			v := t.judge(rounds, onced)
			if v.Reached == "" {
				b.WriteString(" – | – |")
				continue
			}
			fmt.Fprintf(&b, " **%s**, %s to %s | %s |", with(v.Median, t.Unit), short(v.Lowest), short(v.Highest), v.Reached)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// figureTable gives each system's medians.
func (r *report) figureTable() string {
	var b strings.Builder
	b.WriteString("| work | clients | system | operations a second | p50 ms | p99 ms | server CPU µs | client CPU µs | flushes | other CPU |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range plan {
		for _, t := range s.turns {
			m, n := r.medianOf(t.system, t.work, s.clients)
			if n == 0 {
				continue
			}
			flushed := "–"
			if m.Flushes >= 0 {
				flushed = short(m.Flushes)
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %.2f | %.2f | %s | %s | %s | %.0f %% |\n", t.work, s.clients, t.system,
				thousands(m.OpsPerSecond), m.P50, m.P99, short(m.ServerCPU), short(m.ClientCPU), flushed, 100*m.OtherCPU)
		}
	}
	return b.String()
}

// medianOf gives the medians of a measurement over n rounds.
func (r *report) medianOf(system string, w work, clients int) (m figure, n int) {
	var values [7][]float64
	for _, f := range r.Figures {
		if f.System == system && f.Work == w && f.Clients == clients {
			for i, v := range []float64{f.OpsPerSecond, f.P50, f.P99, f.ServerCPU, f.ClientCPU, f.OtherCPU, f.Flushes} {
				values[i] = append(values[i], v)
			}
			n++
		}
	}
	if n == 0 {
		return figure{}, 0
	}
	return figure{
		System: system, Work: w, Clients: clients, OpsPerSecond: median(values[0]), P50: median(values[1]), P99: median(values[2]),
		ServerCPU: median(values[3]), ClientCPU: median(values[4]), OtherCPU: median(values[5]), Flushes: median(values[6]),
	}, n
}

// errorLines names the measurements in which calls failed: none should.
func (r *report) errorLines() string {
	var b strings.Builder
	for _, f := range r.Figures {
		if len(f.Errors) > 0 {
			fmt.Fprintf(&b, "- round %d, %s, %s at %d clients: %v\n", f.Round+1, f.System, f.Work, f.Clients, f.Errors)
		}
	}
	if b.Len() == 0 {
		return "No call of any system failed.\n"
	}
	return "Calls that failed:\n\n" + b.String()
}

// floorTable gives the machine's limits, medians of the rounds.
func floorTable(rounds [][]limit) string {
	var b strings.Builder
	b.WriteString("| limit | p50 ms | a second | CPU µs | client CPU µs | p50 of all rounds |\n|---|---|---|---|---|---|\n")
	for i, l := range rounds[0] {
		var p50, rate, cpu, client []float64
		for _, r := range rounds {
			p50, rate = append(p50, r[i].P50), append(rate, r[i].Rate)
			cpu, client = append(cpu, r[i].CPU), append(client, r[i].ClientCPU)
		}
		asked := "–"
		if l.ClientCPU > 0 {
			asked = short(median(client))
		}
		low, high := math.Inf(1), 0.0
		for _, v := range p50 {
			low, high = min(low, v), max(high, v)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s to %s |\n", l.Name, short(median(p50)), thousands(median(rate)), short(median(cpu)), asked, short(low), short(high))
	}
	return b.String()
}

// machineLines says where and how the run was made.
func (r *report) machineLines() string {
	m := r.Machine
	var b strings.Builder
	fmt.Fprintf(&b, "%s, commit `%s`; rounds: %d; each measurement %s s after %s s of warm-up.\n\n", r.Date, r.Commit, r.Rounds, short(r.Seconds), short(r.Warmup))
	fmt.Fprintf(&b, "%s, %d cores, %.0f GiB, Linux %s, %s on %s, %s; load average before the run %s. %s", m.CPU, m.Cores, m.MemoryGiB, m.Kernel, m.FileSystem, m.Device, m.Go, m.Load, r.Flushes)
	if r.IdleFlushes >= 0 {
		fmt.Fprintf(&b, " While no system is asked there are %s a second.", short(r.IdleFlushes))
	}
	b.WriteString("\n\n")
	b.WriteString("| system | version | settings | CPU when idle |\n|---|---|---|---|\n")
	for _, s := range r.Systems {
		idle := "–"
		for _, i := range r.Idle {
			if i.System == s.Name {
				idle = fmt.Sprintf("%.1f %% of a core", 100*i.CPU)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Name, s.Version, s.Settings, idle)
	}
	return b.String()
}

// with gives a number and its unit.
func with(v float64, unit string) string {
	return strings.TrimSpace(short(v) + " " + unit)
}

// short gives a number to three places that count, as people write it.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return thousands(v)
	case a >= 10:
		return trimmed(v, 1)
	case a >= 1:
		return trimmed(v, 2)
	case a >= 0.1:
		return trimmed(v, 3)
	}
	return trimmed(v, 4)
}

func trimmed(v float64, places int) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.*f", places, v), "0"), ".")
}

// thousands gives a whole number with a comma before each three digits.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
