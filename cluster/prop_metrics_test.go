package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Every figure that is described is there, under its own name and with sound
// help and units; how long the oldest uncertain record has been so, too.
func TestMetrics(t *testing.T) {
	t.Parallel()
	regs := map[string]*prometheus.Registry{
		"n1": prometheus.NewRegistry(), "n2": prometheus.NewRegistry(), "n3": prometheus.NewRegistry(),
	}
	c := newTrio(t, 3, "", func(cfg *Config) { cfg.Metrics = regs[cfg.NodeID] })
	settled(t, c.nodes[0], "settled-0001")
	claim := reserveCmd("uncertain-0001")
	claim.LeaseUs = 1000
	decide(t, c.nodes[0], claim)
	for _, n := range c.nodes {
		reg := regs[n.ID()]
		figure := func(name string, labels ...string) (float64, bool) {
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.Metric {
					var have []string
					for _, l := range m.Label {
						have = append(have, l.GetValue())
					}
					if f.GetName() == name && strings.Join(have, " ") == strings.Join(labels, " ") {
						return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
					}
				}
			}
			return 0, false
		}
		c.eventually("the uncertain record shows with its age", func() error {
			count, _ := figure("onced_records", "default", "uncertain")
			age, _ := figure("onced_oldest_uncertain_seconds", "default")
			if count != 1 || age <= 0 || age > 60 {
				return fmt.Errorf("%v uncertain, the oldest for %v s", count, age)
			}
			return nil
		})
		c.eventually("every figure", func() error {
			for name := range n.collector.descs {
				if testutil.CollectAndCount(n.collector, name) == 0 {
					return errors.New("no " + name)
				}
			}
			return nil
		})
		for _, name := range []string{"commit_index", "last_log_index", "last_snapshot_index", "fsm_pending", "num_peers", "term"} {
			if _, ok := figure("onced_raft", name); !ok {
				t.Errorf("raft's own %s is not there", name)
			}
		}
		if v, _ := figure("onced_records", "default", "committed"); v != 1 {
			t.Errorf("%s: %v committed", n.ID(), v)
		}
		if v, ok := figure("onced_raft_last_contact_seconds"); !ok || v > 5 {
			t.Errorf("%s: last contact %v", n.ID(), v)
		}
		problems, err := testutil.CollectAndLint(n.collector)
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
