package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Objective is one condition that a Result must meet.
type Objective struct {
	text  string
	what  string
	above bool    // the figure must be above the bound, else below
	bound float64 // milliseconds, or operations a second
}

// latencyFigure gives a figure of latency by its name, in milliseconds.
func (l *Latency) figure(name string) (float64, bool) {
	switch name {
	case "p50":
		return l.P50, true
	case "p90":
		return l.P90, true
	case "p99":
		return l.P99, true
	case "p99.9":
		return l.P999, true
	case "max":
		return l.Max, true
	}
	return 0, false
}

const opsPerSecond = "opsPerSecond"

// ParseSLO reads objectives, separated by commas: p50, p90, p99, p99.9 or max
// below a Go duration, such as p99<8ms; opsPerSecond above a number, such as
// opsPerSecond>5000.
func ParseSLO(s string) ([]Objective, error) {
	var all []Objective
	for _, text := range strings.Split(s, ",") {
		text = strings.Join(strings.Fields(text), "")
		at := strings.IndexAny(text, "<>")
		if at < 0 {
			return nil, fmt.Errorf("%q is no objective: write p99<8ms or opsPerSecond>5000", text)
		}
		o := Objective{text: text, what: text[:at], above: text[at] == '>'}
		bound := text[at+1:]
		_, latency := new(Latency).figure(o.what)
		switch {
		case latency && !o.above:
			d, err := time.ParseDuration(bound)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("%q: %q is no duration such as 8ms", text, bound)
			}
			o.bound = float64(d) / float64(time.Millisecond)
		case o.what == opsPerSecond && o.above:
			n, err := strconv.ParseFloat(bound, 64)
			if err != nil || !(n >= 0) {
				return nil, fmt.Errorf("%q: %q is no number", text, bound)
			}
			o.bound = n
		default:
			return nil, fmt.Errorf("%q: use p50, p90, p99, p99.9 or max with < and a duration, opsPerSecond with > and a number", text)
		}
		all = append(all, o)
	}
	return all, nil
}

// Missed gives a sentence when r does not meet the objective, "" when it does. A
// run in which no operation was done meets none.
func (o Objective) Missed(r *Result) string {
	if r.Operations == 0 {
		return o.text + ": no operation was done"
	}
	if ms, ok := r.LatencyMs.figure(o.what); ok {
		if ms < o.bound {
			return ""
		}
		return fmt.Sprintf("%s: %s was %s ms", o.text, o.what, figure(ms))
	}
	if r.OpsPerSecond > o.bound {
		return ""
	}
	return fmt.Sprintf("%s: %s were done a second", o.text, figure(r.OpsPerSecond))
}
