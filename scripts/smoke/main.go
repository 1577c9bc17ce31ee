// Command smoke is the shortest proof on real processes: three nodes by
// scripts/cluster.sh, a call forwarded by a follower, the leader killed with -9
// under load and started again, a rolling restart that refuses nobody,
// everything stopped and started, and then every acknowledged commit asked of each node, and the nodes' state hashes compared.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	writers := flag.Int("writers", 16, "writing clients")
	kills := flag.Int("kills", 1, "times the leader is killed")
	rounds := flag.Int("rolling", 1, "rounds of a rolling restart")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	summary, err := smoke(ctx, *writers, *kills, *rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "smoke: FAIL", err)
		os.Exit(1)
	}
	fmt.Println("smoke: PASS", summary)
}

// cluster is three processes behind scripts/cluster.sh.
type cluster struct {
	script    string
	env       []string
	endpoints []string
}

// run carries out one command of cluster.sh and gives what it printed. It is
// not ended with ctx, which stands for the whole run: stop comes after that.
func (c *cluster) run(args ...string) (string, error) {
	cmd := exec.Command(c.script, args...)
	cmd.Env = append(os.Environ(), c.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cluster.sh %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

func smoke(ctx context.Context, writers, kills, rounds int) (summary string, err error) {
	root, err := projectRoot(ctx)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "onced-smoke-")
	if err != nil {
		return "", err
	}
	port, err := freeBlock()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "onced")
	c := &cluster{
		script: filepath.Join(root, "scripts", "cluster.sh"),
		env: []string{
			"CLUSTER_DIR=" + filepath.Join(dir, "cluster"),
			"CLUSTER_BIN=" + bin,
			"CLUSTER_PORT=" + strconv.Itoa(port),
		},
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/onced")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	defer func() {
		if _, stopErr := c.run("stop"); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		if err != nil {
			err = fmt.Errorf("%w\nlogs and data are in %s", err, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	return c.story(ctx, writers, kills, rounds)
}

// story is the whole test on a cluster that is not running yet.
func (c *cluster) story(ctx context.Context, writers, kills, rounds int) (string, error) {
	if _, err := c.run("start"); err != nil {
		return "", err
	}
	list, err := c.run("endpoints")
	if err != nil {
		return "", err
	}
	c.endpoints = strings.Fields(list)
	if err := c.forward(ctx); err != nil {
		return "", fmt.Errorf("forward: %w", err)
	}
	fmt.Println("smoke: three nodes run, a follower forwards")

	load := startLoad(ctx, c.endpoints, writers)
	defer load.stop()
	for range kills {
		if err := c.killLeader(ctx, load); err != nil {
			return "", err
		}
	}
	acked, longest, err := load.stop()
	if err != nil {
		return "", err
	}
	if rounds > 0 {
		rolled, err := c.rolling(ctx, writers, rounds)
		if err != nil {
			return "", err
		}
		acked = append(acked, rolled...)
	}
	if err := c.sameHashes(ctx); err != nil {
		return "", err
	}

	if _, err := c.run("stop"); err != nil {
		return "", err
	}
	if _, err := c.run("start"); err != nil {
		return "", err
	}
	fmt.Printf("smoke: stopped and started all; asking each node for %d commits\n", len(acked))
	if err := verify(ctx, c.endpoints, acked); err != nil {
		return "", err
	}
	if err := c.sameHashes(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("commits=%d lost=0 doubles=0 kills=%d longest-without-ack=%s", len(acked), kills, longest.Round(time.Millisecond)), nil
}

// forward reserves and commits through a node that does not lead.
func (c *cluster) forward(ctx context.Context) error {
	leader, err := c.run("leader")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(leader)
	if err != nil || n < 1 || n > 3 {
		return fmt.Errorf("cluster.sh leader printed %q", leader)
	}
	follower := c.endpoints[n%3]
	w := &write{key: "forward-1", attemptID: "smoke-forward-attempt", request: `{"n":1}`, response: `{"ok":true}`}
	return w.run(ctx, []string{follower})
}

// killLeader ends the leader while writes are acknowledged, waits until they
// are again, and starts it once more.
func (c *cluster) killLeader(ctx context.Context, load *load) error {
	if err := load.more(ctx, 200); err != nil {
		return err
	}
	leader, err := c.run("leader")
	if err != nil {
		return err
	}
	killed := time.Now()
	if _, err := c.run("kill", leader); err != nil {
		return err
	}
	if err := load.more(ctx, 200); err != nil {
		return err
	}
	if _, err := c.run("restart", leader); err != nil {
		return err
	}
	if err := load.more(ctx, 200); err != nil {
		return err
	}
	fmt.Printf("smoke: killed the leader n%s under load, longest time without an acknowledged write %s\n",
		leader, load.longest(killed).Round(time.Millisecond))
	return nil
}

// projectRoot gives the directory of go.mod.
func projectRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", errors.New("run it in the project: go run ./scripts/smoke")
	}
	return filepath.Dir(mod), nil
}

// freeBlock finds a CLUSTER_PORT whose six ports are free, below those that
// systems give to outgoing connections.
func freeBlock() (int, error) {
	start := 10_000 + os.Getpid()%200*100
	for try := range 100 {
		base := 10_000 + (start-10_000+try*40)%20_000
		if free(base, base+1, base+10, base+11, base+20, base+21) {
			return base, nil
		}
	}
	return 0, errors.New("no free block of ports from 10000 to 30000")
}

func free(ports ...int) bool {
	for _, p := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
