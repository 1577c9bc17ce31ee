package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// servers runs three nodes of one cluster on ports of this machine.
func servers(t *testing.T) (*cluster, []*httptest.Server, *[3]atomic.Int32) {
	t.Helper()
	n := newCluster()
	var asked [3]atomic.Int32
	var nodes []*httptest.Server
	for i, id := range []string{"n1", "n2", "n3"} {
		h := n.handler(id)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		nodes = append(nodes, s)
		n.members = append(n.members, idem.NodeStatus{ID: id, HTTPAddress: strings.TrimPrefix(s.URL, "http://")})
	}
	return n, nodes, &asked
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}

// Nodes end one after the other under the client, with connections open to
// them; it goes on with those that are left, given or learned.
func TestFailOverOverRealConnections(t *testing.T) {
	t.Parallel()
	for name, learned := range map[string]bool{"given": false, "learned": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, nodes, asked := servers(t)
			opts := []client.Option{client.WithEndpoints(nodes[0].URL)}
			if !learned {
				opts = append(opts, client.WithEndpoints(nodes[1].URL, nodes[2].URL), client.WithoutDiscovery())
			}
			c, err := client.New(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			mustReserve(t, c, "order-0001")
			if learned {
				// The first answer starts it; wait for the members to be known.
				eventually(t, "the members were asked for", func() bool { return asked[0].Load() >= 2 })
				eventually(t, "the members are known", func() bool { return c.Endpoints() == 3 })
			}
			for i, key := range []string{"order-0002", "order-0003"} {
				nodes[i].CloseClientConnections()
				nodes[i].Close()
				mustReserve(t, c, key)
				n.want(t, key, "pending")
			}
			if asked[2].Load() == 0 {
				t.Error("the last node was not asked")
			}
		})
	}
}

// What is told of members is taken only where it can be meant for this client.
func TestLearnedEndpoints(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ from, address, want string }{
		{"http://n1:4747", "n2:4747", "http://n2:4747"},
		{"https://n1:4747", "n2:4747", "https://n2:4747"},
		{"http://n1:4747", "http://n2:4747", "http://n2:4747"},
		{"https://n1:4747", "http://n2:4747", ""}, // the token would leave in the clear
		{"http://n1:4747", "https://n2:4747", ""},
		{"http://n1:4747", "127.0.0.1:4747", ""}, // means another machine there
		{"http://n1:4747", "localhost:4747", ""},
		{"http://n1:4747", "0.0.0.0:4747", ""},
		{"http://n1:4747", "[::]:4747", ""},
		{"http://127.0.0.1:4747", "127.0.0.1:4757", "http://127.0.0.1:4757"},
		{"http://proxy/onced", "n2:4747", ""},
		{"http://n1:4747", "n2:4747/path", ""},
		{"http://n1:4747", "", ""},
		{"http://n1:4747", "a b", ""},
	} {
		if got := client.Neighbour(t, test.from, test.address); got != test.want {
			t.Errorf("%s told by %s is %q, want %q", test.address, test.from, got, test.want)
		}
	}
}

// Members are asked for once at first and again when the leader changed, not
// with every call; a failure to learn harms no call.
func TestLearningIsRare(t *testing.T) {
	t.Parallel()
	_, w := newWire()
	w.fate = func(s sent, _ int) fate {
		if s.op == "cluster" {
			return fate{status: 500, body: "no"}
		}
		return fate{}
	}
	c, err := client.New(client.WithTransport(w), client.WithEndpoints("http://n1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := c.Cancel(t.Context(), client.CancelRequest{Key: key, Reason: "late"}); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if n := len(w.calls("cluster")); n != 1 {
		t.Errorf("asked for the members %d times", n)
	}
}

// The token goes with every call.
func TestTokenIsSent(t *testing.T) {
	t.Parallel()
	_, w := newWire()
	c := dial(t, w, client.WithToken("secret"), client.WithNamespace("default"))
	mustReserve(t, c, key)
	if got := w.calls("")[0].header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("Authorization is %q", got)
	}
	if c.Namespace() != "default" {
		t.Errorf("namespace %q", c.Namespace())
	}
}
