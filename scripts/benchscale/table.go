package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// unit is what a figure is in.
type unit string

const (
	bytesEach    unit = "B"
	milliseconds unit = "ms"
	seconds      unit = "s"
	perSecond    unit = "/s"
	times        unit = "x"
	count        unit = ""
)

// figure is one line of the table. Accept and aim, of the design's target of
// that name, are bounds: from above, or from below when higher is better. A
// figure without a target has none of the three.
type figure struct {
	goal        string
	what        string
	value       float64
	unit        unit
	higher      bool
	hasTarget   bool
	accept, aim float64
	note        string
}

// reached is the bound that the figure keeps to.
func (f figure) reached() string {
	keeps := func(bound float64) bool {
		if f.higher {
			return f.value >= bound
		}
		return f.value <= bound
	}
	switch {
	case !f.hasTarget:
		return ""
	case keeps(f.aim):
		return "aim"
	case keeps(f.accept):
		return "accept"
	}
	return "no"
}

// number gives v with three digits that count, and its unit.
func number(v float64, u unit) string {
	var s string
	switch magnitude := math.Abs(v); {
	case u == count:
		s = fmt.Sprintf("%.0f", v)
	case magnitude >= 100:
		s = grouped(fmt.Sprintf("%.0f", v))
	case magnitude >= 10:
		s = fmt.Sprintf("%.1f", v)
	case magnitude >= 1:
		s = fmt.Sprintf("%.2f", v)
	default:
		s = fmt.Sprintf("%.3g", v)
	}
	switch u {
	case count:
		return grouped(s)
	case times, perSecond:
		return s + string(u)
	}
	return s + " " + string(u)
}

// grouped puts commas into a whole number.
func grouped(s string) string {
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// table collects figures in the order in which they come.
type table struct{ figures []figure }

// add adds a figure that has no target.
func (t *table) add(what string, value float64, u unit, note string) {
	t.figures = append(t.figures, figure{what: what, value: value, unit: u, note: note})
}

// target adds a figure that should be at most accept, better at most aim.
func (t *table) target(goal, what string, value float64, u unit, accept, aim float64, note string) {
	t.figures = append(t.figures, figure{goal: goal, what: what, value: value, unit: u, hasTarget: true, accept: accept, aim: aim, note: note})
}

// floor adds a figure that should be at least accept, better at least aim.
func (t *table) floor(goal, what string, value float64, u unit, accept, aim float64, note string) {
	t.target(goal, what, value, u, accept, aim, note)
	t.figures[len(t.figures)-1].higher = true
}

// markdown gives the table below a paragraph that tells of the setting.
func (t *table) markdown(setting string) string {
	var b strings.Builder
	b.WriteString(setting)
	b.WriteString("\n\n| target | figure | measured | accept | aim | reached | |\n|---|---|---:|---:|---:|---|---|\n")
	for _, f := range t.figures {
		accept, aim := "", ""
		if f.hasTarget {
			sign := "≤ "
			if f.higher {
				sign = "≥ "
			}
			accept, aim = sign+number(f.accept, f.unit), sign+number(f.aim, f.unit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.goal, f.what, number(f.value, f.unit), accept, aim, f.reached(), f.note)
	}
	return b.String()
}

// median is the middle one of the values, the lower of two; 0 when there is
// none. It sorts them.
func median[T float64 | time.Duration](values []T) T {
	return quantile(values, 0.5)
}

// quantile is the least value that this part of all values do not exceed; 0 gives
// the lowest. It sorts them.
func quantile[T float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sized gives a number of records as people say it: 10k, 1M.
func sized(n int) string {
	switch {
	case n >= 1_000_000 && n%100_000 == 0:
		return fmt.Sprintf("%gM", float64(n)/1e6)
	case n >= 1000 && n%100 == 0:
		return fmt.Sprintf("%gk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// longestStep is the longest time from one of these moments to the next.
func longestStep(moments []time.Duration) (longest time.Duration) {
	slices.Sort(moments)
	for i := 1; i < len(moments); i++ {
		longest = max(longest, moments[i]-moments[i-1])
	}
	return longest
}
