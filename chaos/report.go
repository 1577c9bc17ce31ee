package chaos

import (
	"fmt"
	"sort"
	"strings"
)

// Report is what a run came to.
type Report struct {
	Pass     bool    `json:"pass"`
	Seed     uint64  `json:"seed"`
	Commit   string  `json:"commit"`
	Command  string  `json:"command"`
	Workload string  `json:"workload"`
	Nodes    int     `json:"nodes"`
	Seconds  float64 `json:"seconds"` // asked for

	Operations       int    `json:"operations"`
	Keys             int    `json:"keys"`
	Fills            int    `json:"fills"`
	Audited          int    `json:"auditedOutcomes"` // each asked of every node
	Hashes           int    `json:"comparedStates"`  // indexes at which two nodes or more were seen
	DoubleGrants     int    `json:"doubleGrants"`
	LostOutcomes     int    `json:"lostOutcomes"`
	DifferingReplays int    `json:"differingReplays"`
	Linearizable     string `json:"linearizable"` // yes, no, undecided
	LongestGapMs     int64  `json:"longestGapMs"`
	WorstSkewMs      int64  `json:"worstSkewMs"` // of log time from this machine's clock

	LoadSeconds  float64 `json:"loadSeconds"`
	AuditSeconds float64 `json:"auditSeconds"`
	CheckSeconds float64 `json:"checkSeconds"`

	Faults  []*Injected `json:"faults"`
	Reasons []string    `json:"reasons,omitempty"` // why it failed
}

func newReport(c Config) *Report {
	return &Report{
		Seed: c.Seed, Commit: c.Commit, Command: c.Command, Workload: c.Workload, Nodes: c.Nodes,
		Seconds: c.For.Seconds(), Linearizable: "no",
	}
}

func (r *Report) wrong(format string, args ...any) {
	r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...))
}

func (r *Report) take(f *Findings) {
	r.Operations, r.Keys = f.Operations, f.Keys
	r.DoubleGrants, r.LostOutcomes, r.DifferingReplays = f.DoubleGrants, f.LostOutcomes, f.DifferingReplays
	switch {
	case f.Linearizable && f.Undecided == 0:
		r.Linearizable = "yes"
	case f.Linearizable:
		r.Linearizable = "undecided"
	}
	r.Reasons = append(r.Reasons, f.Reasons...)
}

// conclude passes a run in which nothing is wrong.
func (r *Report) conclude() {
	r.Pass = len(r.Reasons) == 0 && r.DoubleGrants == 0 && r.LostOutcomes == 0 && r.DifferingReplays == 0 && r.Linearizable == "yes"
}

// Verdict is the last line of a run.
func (r *Report) Verdict() string {
	word := "FAIL"
	if r.Pass {
		word = "PASS"
	}
	return fmt.Sprintf("%s seed=%d operations=%d faults=%d double_grants=%d lost_outcomes=%d differing_replays=%d linearizable=%s longest_gap_ms=%d",
		word, r.Seed, r.Operations, len(r.Faults), r.DoubleGrants, r.LostOutcomes, r.DifferingReplays, r.Linearizable, r.LongestGapMs)
}

// failOvers gives the sorted times from a fault on the leader that leaves a
// majority to the next acknowledged write.
func (r *Report) failOvers(kinds ...string) (ms []int64) {
	for _, i := range r.Faults {
		for _, k := range kinds {
			if i.Name == k && i.Leader && !i.lasts && i.WriteMs >= 0 {
				ms = append(ms, i.WriteMs)
			}
		}
	}
	sort.Slice(ms, func(a, b int) bool { return ms[a] < ms[b] })
	return ms
}

// quantile gives the q-quantile of sorted values.
func quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Markdown gives the tables of docs/RELIABILITY.md.
func (r *Report) Markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("`%s` at commit %s:", r.Command, r.Commit)
	line("")
	line("    %s", r.Verdict())
	line("")
	line("| figure | reached |")
	line("|---|---|")
	line("| nodes, workload, load | %d, %s, %.0f s |", r.Nodes, r.Workload, r.LoadSeconds)
	line("| client operations, all checked | %d on %d keys |", r.Operations, r.Keys)
	line("| orders filled at the exchange | %d |", r.Fills)
	line("| acknowledged outcomes, each replayed by every node after a stop of all | %d |", r.Audited)
	line("| indexes at which the states of two nodes or more were compared | %d |", r.Hashes)
	line("| longest time without an acknowledged write | %d ms |", r.LongestGapMs)
	line("| log time from this machine's clock, at most | %d ms |", r.WorstSkewMs)
	if f := r.failOvers("kill", "restart", "pause", "isolate"); len(f) > 0 {
		line("| leader lost (kill, stop, pause, isolate) to the next acknowledged write | median %d ms, p99 %d ms, of %d |", quantile(f, 0.5), quantile(f, 0.99), len(f))
	}
	line("| time: load, audit, check | %.0f s, %.1f s, %.1f s |", r.LoadSeconds, r.AuditSeconds, r.CheckSeconds)
	line("")
	line("| fault | times | on the leader | next acknowledged write, median and worst | one proof of effect |")
	line("|---|---|---|---|---|")
	for _, f := range Faults() {
		var ms []int64
		times, leader, proof := 0, 0, ""
		for _, i := range r.Faults {
			if i.Name != f.Name {
				continue
			}
			times++
			if i.Leader {
				leader++
			}
			if i.WriteMs >= 0 {
				ms = append(ms, i.WriteMs)
			}
			if proof == "" {
				proof = i.Proof
			}
		}
		if times == 0 {
			continue
		}
		sort.Slice(ms, func(a, b int) bool { return ms[a] < ms[b] })
		line("| %s | %d | %d | %d ms, %d ms | %s |", f.Name, times, leader, quantile(ms, 0.5), quantile(ms, 1), proof)
	}
	return b.String()
}
