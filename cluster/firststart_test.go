package cluster

import (
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onced/onced/cluster/peerpb"
)

// The whole matrix of a first start, as n2 sees it. Each case changes what the
// others are; all start from three fresh nodes with one list.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	started := func(n2 string) func(*identity) {
		return func(id *identity) {
			id.Initialised, id.ClusterID = true, "c1"
			id.Instances = map[string]string{"n1": "instance-n1", "n2": n2, "n3": "instance-n3"}
		}
	}
	cases := []struct {
		name    string
		n1, n3  func(*identity)
		n2      func(*identity)
		down    bool   // n3 does not run
		ready   bool   // n2 may bootstrap
		waiting string // or waits, with this reason
		refused string // or is refused for good
	}{
		{name: "all fresh", ready: true},
		{name: "one down", down: true, waiting: "n3 does not answer: "},
		{
			name: "crash window: the others have started and know this instance",
			n1:   started("instance-n2"), n3: started("instance-n2"), ready: true,
		},
		{name: "crash window: one has started", n1: started("instance-n2"), ready: true},
		{
			name: "crash window, and one down",
			n1:   started("instance-n2"), down: true, waiting: "n3 does not answer: ",
		},
		{
			name: "wiped",
			n1:   started("old"), n3: started("old"),
			refused: "n2 was a member of this cluster with other data. Put the old disk back, or remove n2 and add the machine under a new id.",
		},
		{
			name: "wiped, known to one only",
			n1:   started("old"), refused: "n2 was a member of this cluster with other data.",
		},
		{
			name: "wiped, and one down: refused all the same",
			n1:   started("old"), down: true, refused: "n2 was a member of this cluster with other data.",
		},
		{
			name:    "lists differ in an address",
			n3:      func(id *identity) { id.Members[0].Address = "elsewhere:1" },
			refused: "the cluster lists differ: n3 has n1=elsewhere:1,",
		},
		{
			name:    "lists differ in a member",
			n1:      func(id *identity) { id.Members = append(id.Members, Member{"n4", "h4:1"}) },
			refused: "the cluster lists differ: n1 has ",
		},
		{
			name: "in a cluster that has other members",
			n1: func(id *identity) {
				id.Initialised = true
				id.Members = []Member{{"n1", "h1:1"}, {"n9", "h9:1"}}
			},
			refused: "n2 is not a member of the cluster that n1 is in",
		},
		{
			name: "in a cluster that never knew this node",
			n1: func(id *identity) {
				id.Initialised = true
				delete(id.Instances, "n2")
			},
			refused: "n1 is in a cluster that does not know n2",
		},
		{
			name: "another cluster",
			n2:   func(id *identity) { id.ClusterID = "c2" },
			n1:   started("instance-n2"), refused: "n2 belongs to cluster c2, n1 to cluster c1",
		},
		{
			name:    "another node at the address",
			n1:      func(id *identity) { id.NodeID = "n3" },
			waiting: "n1: this is n3, not n1",
		},
		{
			name:    "the id is taken",
			n1:      func(id *identity) { id.NodeID, id.Members = "n2", id.Members[1:] },
			waiting: "n1: this is n2, not n1",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes := newTestNodes(t, 3, false)
			for i, f := range []func(*identity){c.n1, c.n2, c.n3} {
				if f == nil {
					continue
				}
				if err := nodes[i].id.update(f); err != nil {
					t.Fatal(err)
				}
			}
			if c.down {
				nodes[2].net.close()
			}
			n2 := nodes[1]
			before := n2.id.get()
			ready, waiting, err := n2.net.askAll(t.Context(), n2.cfg.Members)
			if c.refused != "" {
				wantHalt(t, err, ExitRefused, c.refused)
			} else if err != nil {
				t.Fatal(err)
			}
			if ready != c.ready || (c.waiting != "") != (len(waiting) == 1) || !strings.Contains(strings.Join(waiting, ";"), c.waiting) {
				t.Fatalf("ready %v, waiting %q", ready, waiting)
			}
			after := n2.id.get()
			if after.Initialised {
				t.Fatal("asking is not starting")
			}
			want := map[string]string{"n1": "instance-n1", "n2": "instance-n2", "n3": "instance-n3"}
			if c.ready && !maps.Equal(after.Instances, want) {
				t.Fatalf("instances %v", after.Instances)
			}
			if !c.ready && !cmp.Equal(before, after) {
				t.Fatal(cmp.Diff(before, after))
			}
		})
	}
}

// What a node says for itself must not be believed alone: a peer of another
// version may miss a reason to refuse.
func TestFirstStartJudgesItself(t *testing.T) {
	t.Parallel()
	self := identity{NodeID: "n2", Instance: "i2", Members: threeMembers}
	good := func() *peerpb.HelloReply {
		return &peerpb.HelloReply{NodeId: "n1", Instance: "i1", Members: memberPBs(threeMembers)}
	}
	for name, c := range map[string]struct {
		change func(*peerpb.HelloReply)
		want   string
		fatal  bool
	}{
		"good":        {change: func(*peerpb.HelloReply) {}},
		"crash":       {change: func(r *peerpb.HelloReply) { r.Initialised, r.KnownInstance = true, "i2" }},
		"wiped":       {func(r *peerpb.HelloReply) { r.Initialised, r.KnownInstance = true, "i0" }, "n2 was a member", true},
		"not known":   {func(r *peerpb.HelloReply) { r.Initialised = true }, "does not know n2", true},
		"list":        {func(r *peerpb.HelloReply) { r.Members[2].Address = "x:1" }, "lists differ", true},
		"not listed":  {func(r *peerpb.HelloReply) { r.Members = r.Members[:1] }, "does not name n2", true},
		"nil member":  {func(r *peerpb.HelloReply) { r.Members[0] = nil }, "lists differ", true},
		"other node":  {func(r *peerpb.HelloReply) { r.NodeId = "n3" }, "this is n3, not n1", false},
		"nobody":      {func(r *peerpb.HelloReply) { r.NodeId = "" }, "names no node", false},
		"no instance": {func(r *peerpb.HelloReply) { r.Instance = "" }, "names no node", false},
		"refused":     {func(r *peerpb.HelloReply) { r.Refused = "not today" }, "not today", false},
	} {
		r := good()
		c.change(r)
		got := judgeFirstStart(self, Member{"n1", "h1:1"}, r)
		if (got == nil) != (c.want == "") || (got != nil && (!strings.Contains(got.sentence, c.want) || got.fatal != c.fatal)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// After the first start the guards stay: what is accepted by whom.
func TestHelloAfterTheStart(t *testing.T) {
	t.Parallel()
	self := identity{
		NodeID: "n1", Instance: "i1", ClusterID: "c1", Initialised: true, Members: threeMembers,
		Instances: map[string]string{"n1": "i1", "n2": "i2", "n3": "i3", "n4": "i4"},
	}
	for name, c := range map[string]struct {
		change func(*peerpb.Hello)
		want   string
		fatal  bool
	}{
		"member":               {change: func(*peerpb.Hello) {}},
		"cluster not known":    {change: func(h *peerpb.Hello) { h.ClusterId = "" }},
		"list of a later time": {change: func(h *peerpb.Hello) { h.Members = h.Members[:2] }},
		"to":                   {change: func(h *peerpb.Hello) { h.To = "n1" }},
		"other cluster":        {func(h *peerpb.Hello) { h.ClusterId = "c2" }, "belongs to cluster c2", true},
		"other instance":       {func(h *peerpb.Hello) { h.Instance = "new" }, "n2 was a member of this cluster with other data", true},
		"no instance":          {func(h *peerpb.Hello) { h.Instance = "" }, "names no node", false},
		"no node":              {func(h *peerpb.Hello) { h.NodeId = "\n" }, "names no node", false},
		"stranger":             {func(h *peerpb.Hello) { h.NodeId, h.Instance = "n9", "i9" }, "n9 is not a member", true},
		"removed":              {func(h *peerpb.Hello) { h.NodeId, h.Instance = "n4", "i4" }, "n4 is not a member", true},
		"itself":               {func(h *peerpb.Hello) { h.NodeId, h.Instance = "n1", "i1" }, "reached itself", false},
		"our id":               {func(h *peerpb.Hello) { h.NodeId, h.Instance = "n1", "new" }, "another node has the id n1", true},
		"for another":          {func(h *peerpb.Hello) { h.To = "n3" }, "this is n1, not n3", false},
		"fresh, other list": {
			func(h *peerpb.Hello) { h.Initialised, h.Members = false, h.Members[:2] }, "lists differ", true,
		},
	} {
		h := &peerpb.Hello{NodeId: "n2", Instance: "i2", ClusterId: "c1", Initialised: true, Members: memberPBs(threeMembers)}
		c.change(h)
		got := checkHello(self, h)
		if (got == nil) != (c.want == "") || (got != nil && (!strings.Contains(got.sentence, c.want) || got.fatal != c.fatal)) {
			t.Errorf("%s: %+v", name, got)
		}
		if r := answerHello(self, h, time.Now(), "v"); (r.Refused == "") != (got == nil) {
			t.Errorf("%s: the reply says %q", name, r.Refused)
		}
	}
}

// A hello that nobody answers must not hold up the round.
func TestFirstStartAgainstASilentPeer(t *testing.T) {
	t.Parallel()
	nodes := newTestNodes(t, 2, false)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	members := append(nodes[0].id.get().Members, Member{"n3", silent.Addr().String()})
	for _, n := range nodes {
		if err := n.id.update(func(id *identity) { id.Members = members }); err != nil {
			t.Fatal(err)
		}
	}
	ready, waiting, err := nodes[0].net.askAll(t.Context(), members)
	if ready || err != nil || len(waiting) != 1 || !strings.Contains(waiting[0], "n3 does not answer: no reply to the hello") {
		t.Fatal(ready, waiting, err)
	}
}
