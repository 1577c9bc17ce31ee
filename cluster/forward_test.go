package cluster

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/onced/onced/cluster/peerpb"
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

// TestB35_LostAnswerOfTheLeader has the leader decide a forwarded reserve and
// lose the answer: the follower repeats it as the same attempt and gets the same
// grant, not a second one and not "in flight" (fluree/db#1716, rqlite).
func TestB35_LostAnswerOfTheLeader(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3, "", nil)
	leader, follower := c.nodes[c.leader()], c.nodes[c.follower()]
	var lost atomic.Int32
	leader.net.serve(func(ctx context.Context, from string, req *peerpb.Request) *peerpb.Response {
		resp := leader.servePeer(ctx, from, req)
		if req.GetPropose() != nil && lost.Add(1) == 1 {
			return nil // told as unknown
		}
		return resp
	})
	r, _ := decide(t, follower, reserveCmd("answer-lost"))
	if r.Outcome != fsm.OutcomeReserved || !r.Resumed || r.Record.Attempt != 1 {
		t.Errorf("%v %s %+v, want the first grant, resumed", r.Outcome, r.Code, r.Record)
	}
	if lost.Load() < 2 {
		t.Error("no answer was lost: nothing is shown")
	}
}
