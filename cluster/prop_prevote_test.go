package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// A node that reaches nobody does not raise its term, however often it asks for
// votes: with its higher term it would depose the leader when it is back. That
// is pre-vote, through the product's own transport (R33).
func TestANodeAloneKeepsItsTerm(t *testing.T) {
	t.Parallel()
	logs := map[string]*lockedBuffer{"n1": {}, "n2": {}, "n3": {}}
	c := newTrio(t, 3, "", func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(logs[cfg.NodeID], nil))
	})
	alone := c.nodes[(c.leader()+1)%3]
	for i, n := range c.nodes {
		if n != alone {
			c.crash(i)
		}
	}
	before := alone.raft.Load().CurrentTerm()
	c.eventually("three campaigns", func() error {
		if n := strings.Count(logs[alone.ID()].String(), "pre-vote campaign failed"); n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	// One more is fair: an election may have been won just before the others died.
	if after := alone.raft.Load().CurrentTerm(); after > before+1 {
		t.Errorf("term %d before, %d after three campaigns alone", before, after)
	}
}
