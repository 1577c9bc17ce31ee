package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// node is one server, and what it is started with.
type node struct {
	id   string
	url  string
	dir  string
	args []string
	*process
}

// cluster is some nodes.
type cluster struct {
	onced string
	dir   string
	env   []string
	nodes []*node
	more  []string // arguments beside those that every node needs
}

// startTime is how long nodes may take to become ready: the largest have
// gigabytes to read.
const startTime = 5 * time.Minute

// memoryLimit is the GOMEMLIMIT of each node of a cluster that is to hold that
// many records: far above what it needs at the default GOGC, but three large
// nodes with a lazier collector do not exhaust the machine.
func memoryLimit(records int) string {
	return fmt.Sprintf("GOMEMLIMIT=%d", 512<<20+records*900)
}

// newCluster starts that many nodes on an empty directory and returns when all
// are ready. The runner ends it.
func (r *runner) newCluster(ctx context.Context, nodes, records int, more ...string) (*cluster, error) {
	dir, err := os.MkdirTemp(r.dir, "cluster-")
	if err != nil {
		return nil, err
	}
	c := &cluster{onced: r.onced, dir: dir, env: []string{memoryLimit(records)}, more: more}
	r.clusters = append(r.clusters, c)
	var members []string
	for i := range nodes {
		httpPort, err := freePort()
		if err != nil {
			return nil, err
		}
		peerPort, err := freePort()
		if err != nil {
			return nil, err
		}
		n := &node{id: fmt.Sprintf("n%d", i+1), url: fmt.Sprintf("http://127.0.0.1:%d", httpPort)}
		n.dir = filepath.Join(dir, n.id)
		peer := fmt.Sprintf("127.0.0.1:%d", peerPort)
		n.args = []string{
			"server", "--node-id", n.id, "--data-dir", n.dir,
			"--http-addr", strings.TrimPrefix(n.url, "http://"), "--peer-addr", peer,
		}
		members = append(members, n.id+"="+peer)
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.args = append(n.args, "--cluster", strings.Join(members, ","))
	}
	return c, c.start(ctx, c.nodes...)
}

// start starts nodes on the data that they have, and returns when they are ready.
func (c *cluster) start(ctx context.Context, nodes ...*node) error {
	for _, n := range nodes {
		if err := c.launch(n); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) launch(n *node) (err error) {
	n.process, err = launch(filepath.Join(c.dir, n.id+".log"), c.env, c.onced, append(n.args[:len(n.args):len(n.args)], c.more...)...)
	return err
}

// ready returns when the node serves.
func (n *node) ready(ctx context.Context) error {
	return until(ctx, startTime, func() error {
		_, err := ask(ctx, "GET", n.url+"/readyz", "")
		return err
	}, n)
}

// until asks again and again until the answer is nil. It gives up after limit,
// with ctx, or when one of the nodes has ended.
func until(ctx context.Context, limit time.Duration, answer func() error, nodes ...*node) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := answer()
		if err == nil {
			return nil
		}
		for _, n := range nodes {
			if ended := n.ended(); ended != nil {
				return ended
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// kill ends a node at once.
func (n *node) kill() {
	n.signal(syscall.SIGKILL)
	<-n.gone
}

// stop ends all nodes; not in good order, which takes a while and is not needed.
func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n.process != nil {
			n.signal(syscall.SIGKILL)
		}
	}
	for _, n := range c.nodes {
		if n.process != nil {
			<-n.gone
		}
	}
}

// remove ends the cluster and removes its data.
func (c *cluster) remove() error {
	c.stop()
	return os.RemoveAll(c.dir)
}

func (c *cluster) urls() []string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = n.url
	}
	return urls
}

// leader waits for a node that may decide, and gives it with the others. All
// nodes must run.
func (c *cluster) leader(ctx context.Context) (leader *node, others []*node, err error) {
	err = until(ctx, startTime, func() error {
		leader, others = nil, nil
		for _, n := range c.nodes {
			if m, err := scrape(ctx, n.url); err == nil && m["onced_leader"] == 1 {
				leader = n
			} else {
				others = append(others, n)
			}
		}
		if leader == nil {
			return errors.New("no node leads")
		}
		return nil
	}, c.nodes...)
	return leader, others, err
}

// term is the highest that any node knows of.
func (c *cluster) term(ctx context.Context) (term float64, err error) {
	for _, n := range c.nodes {
		m, err := scrape(ctx, n.url)
		if err != nil {
			return 0, err
		}
		term = max(term, m["onced_term"])
	}
	return term, nil
}

// applied is the log index that a node has applied.
func (n *node) applied(ctx context.Context) (float64, error) {
	m, err := scrape(ctx, n.url)
	return m["onced_applied_index"], err
}
