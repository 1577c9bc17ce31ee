package cluster

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onced/onced/fsm"
)

// collector gives the node's own figures to Prometheus when they are asked for.
type collector struct {
	node    *Node
	descs   map[string]*prometheus.Desc
	applies *prometheus.HistogramVec
}

func newCollector(n *Node) *collector {
	c := &collector{node: n, descs: map[string]*prometheus.Desc{}, applies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "onced_apply_duration_seconds",
		Help:    "Time that this node's machine took for a log entry, by what was in it: a sweep or none.",
		Buckets: []float64{.0001, .00025, .0005, .001, .002, .003, .004, .005, .0075, .01, .02, .05, .1, .25, 1},
	}, []string{"entry"})}
	n.fsm.swept, n.fsm.others = c.applies.WithLabelValues("sweep"), c.applies.WithLabelValues("other")
	add := func(name, help string, labels ...string) {
		c.descs[name] = prometheus.NewDesc(name, help, labels, nil)
	}
	add("onced_applied_index", "Log index that this node's machine has applied.")
	add("onced_leader", "1 while this node leads and may decide.")
	add("onced_leader_known", "1 while this node knows a leader.")
	add("onced_ready", "1 while every readiness check passes.")
	add("onced_term", "Raft term of this node.")
	add("onced_log_entries_total", "Log entries that this node proposed.")
	add("onced_log_commands_total", "Commands in the log entries that this node proposed.")
	add("onced_abandoned_entries_total", "Log entries whose fate this node stopped waiting for, at its end.")
	add("onced_waiting_commands", "Commands that wait for a log entry on this node.")
	add("onced_forwarded_total", "Messages that this node sent to a leader to have commands decided.")
	add("onced_local_answers_total", "Commands that this node answered from its own memory.")
	add("onced_parked_calls", "Calls that wait on this node for another attempt.")
	add("onced_log_bytes", "Bytes of the log store on disk.")
	add("onced_snapshot_bytes", "Bytes of the snapshots on disk.")
	add("onced_peer_clock_offset_seconds", "How far a peer's wall clock is ahead of this node's.", "peer")
	add("onced_records", "Records by namespace and status, expired ones apart.", "namespace", "status")
	add("onced_record_bytes", "Bytes that count against the quota of a namespace.", "namespace")
	add("onced_oldest_uncertain_seconds", "How long the lease has been over of the record that has been uncertain for longest; 0: none is.", "namespace")
	add("onced_raft_last_contact_seconds", "Time since raft here heard of its leader; 0 on the leader, absent before the first.")
	add("onced_raft", "A figure of raft's own statistics.", "name")
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
	c.applies.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	n := c.node
	c.applies.Collect(ch)
	send := func(kind prometheus.ValueType, name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], kind, v, labels...)
	}
	gauge := func(name string, v float64, labels ...string) { send(prometheus.GaugeValue, name, v, labels...) }
	counter := func(name string, v uint64) { send(prometheus.CounterValue, name, float64(v)) }
	flag := func(name string, on bool) {
		v := 0.0
		if on {
			v = 1
		}
		gauge(name, v)
	}
	var stats map[string]fsm.NamespaceStats
	var now fsm.Time
	n.fsm.read(func(m *fsm.Machine) {
		gauge("onced_applied_index", float64(m.Index()))
		now = n.clock.estimate(m.Now())
		stats = m.Stats(now)
	})
	for name, s := range stats {
		for status, v := range map[string]int64{
			"pending": s.Pending, "uncertain": s.Uncertain, "committed": s.Committed, "failed": s.Failed,
			"released": s.Released, "cancelled": s.Cancelled, "expired": s.Expired,
		} {
			gauge("onced_records", float64(v), name, status)
		}
		gauge("onced_record_bytes", float64(s.Bytes), name)
		age := 0.0
		if s.OldestUncertain != 0 {
			age = now.Sub(s.OldestUncertain).Seconds()
		}
		gauge("onced_oldest_uncertain_seconds", age, name)
	}
	flag("onced_leader", n.leads() == nil)
	flag("onced_leader_known", n.Leader() != "")
	ready := true
	for _, k := range n.Ready() {
		ready = ready && k.OK
	}
	flag("onced_ready", ready)
	counter("onced_log_entries_total", n.entries.Load())
	counter("onced_log_commands_total", n.commands.Load())
	counter("onced_abandoned_entries_total", n.abandoned.Load())
	counter("onced_forwarded_total", n.forwarded.Load())
	counter("onced_local_answers_total", n.local.Load())
	gauge("onced_waiting_commands", float64(n.batch.queue.waiting()+n.relays.queue.waiting()))
	gauge("onced_parked_calls", float64(n.fsm.keys.parked.Load()))
	logBytes, snapshotBytes := n.Sizes()
	gauge("onced_log_bytes", float64(logBytes))
	gauge("onced_snapshot_bytes", float64(snapshotBytes))
	if r := n.raft.Load(); r != nil {
		gauge("onced_term", float64(r.CurrentTerm()))
		stats := r.Stats()
		if d, err := time.ParseDuration(stats["last_contact"]); err == nil {
			gauge("onced_raft_last_contact_seconds", d.Seconds())
		}
		delete(stats, "last_contact")
		for name, text := range stats {
			if v, err := strconv.ParseFloat(text, 64); err == nil {
				gauge("onced_raft", v, name)
			}
		}
		for _, s := range n.peers.others() {
			if off, ok := n.clock.offset(string(s.ID)); ok {
				gauge("onced_peer_clock_offset_seconds", off.Seconds(), string(s.ID))
			}
		}
	}
}
