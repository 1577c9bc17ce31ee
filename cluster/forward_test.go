package cluster

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/onced/onced/fsm"
)

// TestALargeAnswerIsRefilledFromTheAskersMachine has a follower ask for more
// replays than any message between nodes may carry.
func TestALargeAnswerIsRefilledFromTheAskersMachine(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	leader, follower := c.nodes[c.leader()], c.nodes[c.follower()]
	body := []byte(`"` + string(bytes.Repeat([]byte("x"), 60<<10)) + `"`)
	var cmds []*fsm.Command
	for i := range 160 {
		key := fmt.Sprintf("large-%06d", i)
		r, _ := decide(t, leader, reserveCmd(key))
		commit := commitCmd(key, r.Record.Token)
		commit.Response = body
		decide(t, leader, commit)
		cmds = append(cmds, reserveCmd(key))
	}
	// One fresh key keeps the list from being answered from memory.
	cmds = append(cmds, reserveCmd("fresh-among-large"))
	d, err := follower.Decide(t.Context(), cmds, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d.Local {
		t.Fatal("answered from memory: nothing is shown")
	}
	for i, r := range d.Results[:160] {
		if r.Outcome != fsm.OutcomeReplayed || !bytes.Equal(r.Record.Response, body) {
			t.Fatalf("replay %d: %v %s with %d bytes", i, r.Outcome, r.Code, len(r.Record.Response))
		}
	}
}
