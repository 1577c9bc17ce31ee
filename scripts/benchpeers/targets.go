package main

import (
	"math"
	"slices"
)

// target is a figure with what it has to reach. Ratios are made of figures of
// one round, and their median counts.
type target struct {
	ID, What      string
	Accept, Aim   float64 // Aim 0: there is none beside Accept
	LowerIsBetter bool
	Unit          string
	// value is what onced, with one of its log stores, has in a round; NaN: not
	// measured.
	value func(r results, onced string) float64
}

// results are the figures of one round.
type results struct {
	figures []figure
	limits  []limit
}

// get gives a figure, or one of NaN alone.
func (r results) get(system string, w work, clients int) figure {
	for _, f := range r.figures {
		if f.System == system && f.Work == w && f.Clients == clients {
			return f
		}
	}
	nan := math.NaN()
	return figure{OpsPerSecond: nan, P50: nan, ServerCPU: nan, Flushes: -1}
}

// f is the time of the machine's smallest durable write, in milliseconds.
func (r results) f() float64 {
	for _, l := range r.limits {
		if l.Name == limitF {
			return l.P50
		}
	}
	return math.NaN()
}

// faster gives how many times as many operations a second onced does.
func faster(w work, clients int, peer string, peers work) func(results, string) float64 {
	return func(r results, onced string) float64 {
		return r.get(onced, w, clients).OpsPerSecond / r.get(peer, peers, clients).OpsPerSecond
	}
}

// slower gives how many times as long a call of onced takes, by the medians.
func slower(w work, clients int, peer string, peers work) func(results, string) float64 {
	return func(r results, onced string) float64 {
		return r.get(onced, w, clients).P50 / r.get(peer, peers, clients).P50
	}
}

func flushes(clients int) func(results, string) float64 {
	return func(r results, onced string) float64 {
		if n := r.get(onced, guard, clients).Flushes; n >= 0 {
			return n
		}
		return math.NaN()
	}
}

func spread(clients int) func(results, string) float64 {
	return func(r results, onced string) float64 {
		return r.get(onced, guardAny, clients).OpsPerSecond / r.get(onced, guard, clients).OpsPerSecond
	}
}

var targets = []target{
	{"G1", "W1 a second at 64 clients, against etcd", 3, 4.5, false, "x", faster(guard, 64, nameEtcd, guard)},
	{"G2", "W1 a second at 256 clients, against etcd", 3, 5, false, "x", faster(guard, 256, nameEtcd, guard)},
	{"G5", "W1 a second at 64 clients, against Redis", 0.4, 0.7, false, "x", faster(guard, 64, nameRedis, guard)},
	{"G5", "W1 a second at 256 clients, against Redis", 0.5, 0.9, false, "x", faster(guard, 256, nameRedis, guard)},
	{"G6", "one reserve at one client, p50, in F", 7, 4.5, true, "F", func(r results, onced string) float64 { return r.get(onced, reserve, 1).P50 / r.f() }},
	{"G6", "the same in milliseconds", 1, 0, true, "ms", func(r results, onced string) float64 { return r.get(onced, reserve, 1).P50 }},
	{"G7", "W1 p50 at one client, against etcd", 0.8, 0.5, true, "x", slower(guard, 1, nameEtcd, guard)},
	{"G8", "duplicates a second at 64 clients, any node, against Redis GET", 0.5, 1, false, "x", faster(duplicateAny, 64, nameRedis, duplicate)},
	{"G9", "duplicates a second at 64 clients, any node, against an etcd transaction", 6, 12, false, "x", faster(duplicateAny, 64, nameEtcd, duplicateTxn)},
	{"G9", "the same against etcd's linearizable get", 3, 6, false, "x", faster(duplicateAny, 64, nameEtcd, duplicate)},
	{"G10", "duplicate p50 at one client, against Redis GET", 1, 0.8, true, "x", slower(duplicateAny, 1, nameRedis, duplicate)},
	{"G10", "the same in milliseconds", 0.5, 0, true, "ms", func(r results, onced string) float64 { return r.get(onced, duplicateAny, 1).P50 }},
	{"G11", "W1 a second in batches of 50, against a Redis pipeline of 50", 0.5, 0.9, false, "x", faster(guardBatch, 16, nameRedis, guardBatch)},
	{"G11", "W2 a second in batches of 50, against a Redis pipeline of 50", 0.4, 0.8, false, "x", faster(dupBatch, 16, nameRedis, dupBatch)},
	{"G12", "device flushes for a W1, all nodes, 1 client", 6, 6, true, "", flushes(1)},
	{"G12", "the same at 64 clients", 0.25, 0.15, true, "", flushes(64)},
	{"G12", "the same at 256 clients", 0.08, 0.05, true, "", flushes(256)},
	{"G13", "server CPU for a W1 at 256 clients, against etcd", 0.35, 0.15, true, "x", func(r results, onced string) float64 {
		return r.get(onced, guard, 256).ServerCPU / r.get(nameEtcd, guard, 256).ServerCPU
	}},
	{"G14", "W1 a second through any node against the leader only, 64 clients", 0.65, 0.85, false, "x", spread(64)},
	{"G14", "the same at 256 clients", 0.75, 0.9, false, "x", spread(256)},
}

// verdict is what the rounds say about a target and a log store. Reached is aim, accept or no;
// empty when nothing was measured.
type verdict struct {
	Median, Lowest, Highest float64
	Reached                 string
}

func (t target) judge(rounds []results, onced string) verdict {
	var values []float64
	for _, r := range rounds {
		if v := t.value(r, onced); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return verdict{}
	}
	slices.Sort(values)
	v := verdict{Median: median(values), Lowest: values[0], Highest: values[len(values)-1]}
	reached := func(bound float64) bool {
		if t.LowerIsBetter {
			return v.Median <= bound
		}
		return v.Median >= bound
	}
	switch {
	case t.Aim > 0 && reached(t.Aim):
		v.Reached = "aim"
	case reached(t.Accept):
		v.Reached = "accept"
	default:
		v.Reached = "no"
	}
	return v
}

// median of one or more values; of an even number the mean of the middle two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
