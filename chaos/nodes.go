package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// Node is one `onced server` process: where it is, and what it runs on.
type Node struct {
	ID   string
	HTTP string // host:port of its API
	Peer string // host:port it listens on for the others

	Dir   string // its data directory
	Log   string // its log file
	Clock string // the file that its wall clock is moved by, in builds with the tag chaos

	advertise string   // host:port the others reach it at
	enter     []string // what starts it in its network; empty: as it is
	args      []string

	disk      *disk // its own file system; nil: the machine's
	lostBytes int   // of a canary, at its last power cut

	procMu sync.Mutex // guards proc
	proc   *process
}

// Nodes is a whole cluster of real processes on this machine.
type Nodes struct {
	All    []*Node
	binary string
	http   *http.Client
}

// newNodes gives n nodes that are not started; the fabric has set their
// addresses.
func newNodes(binary, dir string, all []*Node) *Nodes {
	var members []string
	for _, n := range all {
		members = append(members, n.ID+"="+n.advertise)
	}
	c := &Nodes{All: all, binary: binary, http: freshClient()}
	for _, n := range all {
		if n.Dir == "" {
			n.Dir = filepath.Join(dir, n.ID)
		}
		n.Log = filepath.Join(dir, n.ID+".log")
		n.Clock = filepath.Join(dir, n.ID+".clock")
		n.args = []string{
			"server", "--node-id", n.ID, "--data-dir", filepath.Join(n.Dir, "data"),
			"--http-addr", n.HTTP, "--peer-addr", n.Peer, "--peer-advertise", n.advertise,
			"--cluster", strings.Join(members, ","), "--raft-multiplier", "1",
			"--snapshot-threshold", "3000", "--drain-delay", "300ms",
		}
		if !strings.HasPrefix(n.HTTP, "127.") {
			n.args = append(n.args, "--insecure") // in a network of its own
		}
	}
	return c
}

// freshClient asks each time on a connection of its own.
func freshClient() *http.Client {
	return &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: usualDialer.DialContext}}
}

// data is where the node's files are.
func (n *Node) data() string { return filepath.Join(n.Dir, "data") }

func (n *Node) process() *process {
	n.procMu.Lock()
	defer n.procMu.Unlock()
	return n.proc
}

func (n *Node) running() bool {
	p := n.process()
	return p != nil && p.running()
}

// start starts a node on whatever data it has.
func (c *Nodes) start(n *Node) error {
	n.procMu.Lock()
	defer n.procMu.Unlock()
	if n.proc != nil && n.proc.running() {
		return fmt.Errorf("%s runs already", n.ID)
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	args := append(append(append([]string{}, n.enter...), c.binary), n.args...)
	p, err := startProcess(n.Log, []string{"CHAOS_CLOCK_FILE=" + n.Clock, "GOTRACEBACK=all"}, args...)
	if err != nil {
		return err
	}
	n.proc = p
	return nil
}

// kill is kill -9, also of a stopped node.
func (n *Node) kill() {
	if p := n.process(); p != nil {
		p.kill()
	}
}

// stop ends a node in good order.
func (n *Node) stop(ctx context.Context) error {
	p := n.process()
	if p == nil || !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	code, ended := p.exit(15 * time.Second)
	switch {
	case !ended:
		p.kill()
		return fmt.Errorf("%s did not stop within 15 s", n.ID)
	case code != 0:
		return fmt.Errorf("%s stopped with exit code %d", n.ID, code)
	}
	return ctx.Err()
}

// startAll starts all nodes and waits until they serve.
func (c *Nodes) startAll(ctx context.Context) error {
	for _, n := range c.All {
		if !n.running() {
			if err := c.start(n); err != nil {
				return err
			}
		}
	}
	return c.awaitReady(ctx, 30*time.Second, c.All...)
}

// killAll ends everything at once.
func (c *Nodes) killAll() {
	for _, n := range c.All {
		n.kill()
	}
	c.http.CloseIdleConnections()
}

// awaitReady waits until nodes serve. A node that ends instead is an error.
func (c *Nodes) awaitReady(ctx context.Context, within time.Duration, nodes ...*Node) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, n := range nodes {
		err := poll(ctx, func() (bool, error) {
			if !n.running() {
				return false, fmt.Errorf("%s ended instead of getting ready: %s", n.ID, n.lastWords())
			}
			_, err := c.get(ctx, n, "/readyz")
			return err == nil, nil
		})
		if errors.Is(err, context.DeadlineExceeded) {
			_, why := c.get(context.WithoutCancel(ctx), n, "/readyz")
			err = fmt.Errorf("%s is not ready after %v: %v", n.ID, within, why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lastWords gives the end of a node's log on one line.
func (n *Node) lastWords() string {
	b, _ := os.ReadFile(n.Log)
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "onced: ") {
			return lines[i]
		}
	}
	return lines[len(lines)-1]
}

// get reads a page of a node's API; any status but 200 is an error.
func (c *Nodes) get(ctx context.Context, n *Node, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", res.StatusCode, b)
	}
	return b, err
}

// put sends a body to a node's API with PUT.
func (c *Nodes) put(ctx context.Context, n *Node, path, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+n.HTTP+path, strings.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode > 201 {
		b, _ := io.ReadAll(res.Body)
		return fmt.Errorf("PUT %s: %d %s", path, res.StatusCode, b)
	}
	return nil
}

// status gives the cluster as a node sees it.
func (c *Nodes) status(ctx context.Context, n *Node) (idem.ClusterStatus, error) {
	var s idem.ClusterStatus
	b, err := c.get(ctx, n, "/v1/cluster")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// leader gives the node that a majority-side node names as leader and that
// serves; nil when there is none right now.
func (c *Nodes) leader(ctx context.Context) *Node {
	for _, n := range c.All {
		if !n.running() {
			continue
		}
		call, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		req, _ := http.NewRequestWithContext(call, http.MethodGet, "http://"+n.HTTP+"/healthz", nil)
		res, err := c.http.Do(req)
		cancel()
		if err != nil {
			continue
		}
		res.Body.Close()
		if res.Header.Get("Onced-Leader") == n.ID {
			return n
		}
	}
	return nil
}

// poll asks until f says yes or fails, or ctx ends.
func poll(ctx context.Context, f func() (bool, error)) error {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		ok, err := f()
		if ok || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
