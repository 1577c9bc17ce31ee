package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// netns is a fabric of network namespaces: a bridge in one, each node in one of
// its own, clients in another. Nothing is made in the namespace that this
// process is in. The bridge's firewall cuts and loses; clients reach every node
// all the same. Needs root, iproute2 and nftables.
type netns struct {
	prefix string
	nodes  int

	rulesMu sync.Mutex // guards both
	cuts    map[pair]bool
	loss    int // percent, between nodes
}

const netnsMark = "onced-"

// newNetns builds it for n nodes, at 10.99.0.1 and up.
func newNetns(n int) (*netns, error) {
	removeStale()
	f := &netns{prefix: netnsMark + strconv.Itoa(os.Getpid()) + "-", nodes: n, cuts: map[pair]bool{}}
	if err := f.build(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *netns) build() error {
	sw := f.prefix + "sw"
	run := func(args ...string) error { return command("ip", args...) }
	err := errors.Join(run("netns", "add", sw))
	for _, args := range [][]string{
		{"link", "set", "lo", "up"}, {"link", "add", "br0", "type", "bridge"}, {"link", "set", "br0", "up"},
	} {
		if err == nil {
			err = run(append([]string{"-n", sw}, args...)...)
		}
	}
	for i := 0; err == nil && i <= f.nodes; i++ { // the last one is the clients'
		ns, port := f.namespace(i), f.port(i)
		for _, args := range [][]string{
			{"netns", "add", ns},
			{"-n", ns, "link", "set", "lo", "up"},
			{"link", "add", port, "netns", sw, "type", "veth", "peer", "name", "eth0", "netns", ns},
			{"-n", sw, "link", "set", port, "master", "br0", "up"},
			{"-n", ns, "addr", "add", f.address(i) + "/24", "dev", "eth0"},
			{"-n", ns, "link", "set", "eth0", "up"},
		} {
			if err == nil {
				err = run(args...)
			}
		}
	}
	if err != nil {
		return err
	}
	return f.nft("table bridge f {\n counter dropped { }\n chain fw { type filter hook forward priority 0; policy accept; }\n}\n")
}

func (f *netns) namespace(i int) string {
	if i == f.nodes {
		return f.prefix + "clients"
	}
	return f.prefix + "n" + strconv.Itoa(i+1)
}
func (f *netns) port(i int) string    { return "v" + strconv.Itoa(i+1) }
func (f *netns) address(i int) string { return "10.99.0." + strconv.Itoa(i+1) }

// members gives the nodes that live in it.
func (f *netns) members(dir string) []*Node {
	nodes := make([]*Node, f.nodes)
	for i := range nodes {
		id := "n" + strconv.Itoa(i+1)
		nodes[i] = &Node{
			ID: id, HTTP: f.address(i) + ":4747", Peer: f.address(i) + ":4748", advertise: f.address(i) + ":4748",
			Dir: filepath.Join(dir, id), enter: []string{"nsenter", "--net=/var/run/netns/" + f.namespace(i), "--"},
		}
	}
	return nodes
}

func (f *netns) nft(script string) error {
	cmd := exec.Command("ip", "netns", "exec", f.prefix+"sw", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// apply writes the rules; the counter goes on.
func (f *netns) apply() error {
	var b strings.Builder
	b.WriteString("flush chain bridge f fw\n")
	for p := range f.cuts {
		fmt.Fprintf(&b, "add rule bridge f fw iifname %q oifname %q counter name dropped drop\n", f.port(p.from), f.port(p.to))
	}
	if f.loss > 0 {
		var ports []string
		for i := range f.nodes {
			ports = append(ports, strconv.Quote(f.port(i)))
		}
		list := "{ " + strings.Join(ports, ", ") + " }"
		fmt.Fprintf(&b, "add rule bridge f fw iifname %s oifname %s numgen random mod 100 < %d counter name dropped drop\n", list, list, f.loss)
	}
	return f.nft(b.String())
}

// Cut implements Fabric.
func (f *netns) Cut(from, to int) error {
	f.rulesMu.Lock()
	defer f.rulesMu.Unlock()
	f.cuts[pair{from, to}] = true
	return f.apply()
}

// Lose drops percent of what nodes send each other.
func (f *netns) Lose(percent int) error {
	f.rulesMu.Lock()
	defer f.rulesMu.Unlock()
	f.loss = percent
	return f.apply()
}

// Link takes the whole network of a node down, its clients' way too, or up.
func (f *netns) Link(node int, state string) error {
	return command("ip", "-n", f.prefix+"sw", "link", "set", f.port(node), state)
}

// Heal implements Fabric.
func (f *netns) Heal() error {
	f.rulesMu.Lock()
	defer f.rulesMu.Unlock()
	clear(f.cuts)
	f.loss = 0
	return f.apply()
}

var packets = regexp.MustCompile(`packets (\d+)`)

// Stopped implements Fabric.
func (f *netns) Stopped() (int64, string, error) {
	out, err := exec.Command("ip", "netns", "exec", f.prefix+"sw", "nft", "list", "counter", "bridge", "f", "dropped").Output()
	if err != nil {
		return 0, "", err
	}
	m := packets.FindSubmatch(out)
	if m == nil {
		return 0, "", fmt.Errorf("nft: %s", out)
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	return n, "packets dropped", err
}

// Close implements Fabric: it removes every namespace, and with them links,
// bridge and rules.
func (f *netns) Close() error {
	var errs error
	for _, ns := range netnsNames() {
		if strings.HasPrefix(ns, f.prefix) {
			errs = errors.Join(errs, command("ip", "netns", "del", ns))
		}
	}
	return errs
}

func netnsNames() (names []string) {
	entries, _ := os.ReadDir("/var/run/netns")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), netnsMark) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// removeStale removes what a run that was killed has left.
func removeStale() {
	for _, ns := range netnsNames() {
		pid, _, _ := strings.Cut(strings.TrimPrefix(ns, netnsMark), "-")
		if isDead(pid) {
			_ = command("ip", "netns", "del", ns)
		}
	}
}

// dial connects from inside the clients' namespace.
func (f *netns) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	inside := f.inside(f.nodes, func() { c, err = usualDialer.DialContext(ctx, network, address) })
	return c, errors.Join(inside, err)
}

// inside calls do in the namespace of node i, or the clients' behind the last:
// a socket belongs to the namespace that its thread was in when it was made.
func (f *netns) inside(i int, do func()) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	theirs, err := os.Open("/var/run/netns/" + f.namespace(i))
	if err != nil {
		return err
	}
	defer theirs.Close()
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	do()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		return err // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return nil
}

// enter makes an HTTP client dial from inside.
func (f *netns) enter(c *http.Client) { c.Transport.(*http.Transport).DialContext = f.dial }
