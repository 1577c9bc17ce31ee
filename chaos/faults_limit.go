package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var limitFaults = []*Fault{
	{Name: "fds", About: "one node has no file descriptors left (prlimit)", Root: true, Inject: noDescriptors},
	{Name: "cpu", About: "one node gets 5 % of a processor (control group)", Root: true, Needs: cgroups, Inject: littleCPU},
	{Name: "memory", About: "one node may use 512 KiB more than it has (control group), and is killed if it needs them", Root: true, Needs: cgroups, Inject: littleMemory},
}

// noDescriptors lets a node open nothing that it has not open already.
func noDescriptors(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	pid := strconv.Itoa(n.process().pid())
	before, err := softLimit(pid)
	if err != nil {
		return nil, err
	}
	if err := command("prlimit", "--pid", pid, "--nofile=8:"); err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, time.Second, 4*time.Second),
		heal: func(context.Context) (string, error) {
			unanswered := 0
			for range 3 {
				if r.unreachable(n) { // on a connection of its own
					unanswered++
				}
			}
			if n.running() {
				if err := command("prlimit", "--pid", pid, "--nofile="+before+":"); err != nil {
					return "", err
				}
			}
			fate, err := r.revive(n)
			if unanswered == 0 {
				return "", err
			}
			return fmt.Sprintf("%d of 3 new connections were not answered; %s", unanswered, fate), err
		},
	}, nil
}

// softLimit gives how many files a process may open.
func softLimit(pid string) (string, error) {
	b, err := os.ReadFile("/proc/" + pid + "/limits")
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max open files") && len(f) > 4 {
			return f[3], nil
		}
	}
	return "", errors.New("no limit of open files is known")
}

// group is a control group (version 1) of one controller.
type group struct{ dir, home string }

// newGroup makes a group of a controller and moves pid into it.
func newGroup(controller string, pid int, settings map[string]string) (*group, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, err
	}
	root := filepath.Join("/sys/fs/cgroup", controller)
	g := &group{dir: filepath.Join(root, fmt.Sprintf("onced-%d-%d", os.Getpid(), pid))}
	for _, line := range strings.Split(string(b), "\n") {
		if part := strings.SplitN(line, ":", 3); len(part) == 3 && part[1] == controller {
			g.home = filepath.Join(root, part[2])
		}
	}
	if g.home == "" {
		return nil, fmt.Errorf("there is no %s controller of version 1 here", controller)
	}
	// What a run that was killed has left is empty, and goes.
	stale, _ := filepath.Glob(filepath.Join(root, "onced-*"))
	for _, dir := range stale {
		_ = os.Remove(dir)
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	for name, value := range settings {
		err = errors.Join(err, os.WriteFile(filepath.Join(g.dir, name), []byte(value), 0o644))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(g.dir))
	}
	return g, nil
}

// read gives a number of the group: the whole file, or the line that begins
// with name.
func (g *group) read(file, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(g.dir, file))
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) > 0 && (name == "" || f[0] == name) {
			v, _ := strconv.ParseInt(f[len(f)-1], 10, 64)
			return v
		}
	}
	return 0
}

// leave moves pid back, if it lives, and removes the group.
func (g *group) leave(n *Node) error {
	if n.running() {
		if err := os.WriteFile(filepath.Join(g.home, "cgroup.procs"), []byte(strconv.Itoa(n.process().pid())), 0o644); err != nil && n.running() {
			return err
		}
	}
	var err error
	for range 100 {
		if err = os.Remove(g.dir); err == nil {
			return nil
		}
		t := time.NewTimer(20 * time.Millisecond) // until the kernel has let go of it
		<-t.C
	}
	return err
}

func littleCPU(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	g, err := newGroup("cpu", n.process().pid(), map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "5000"})
	if err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 2*time.Second, 5*time.Second),
		heal: func(context.Context) (string, error) {
			times := g.read("cpu.stat", "nr_throttled")
			if err := g.leave(n); err != nil {
				return "", err
			}
			fate, err := r.revive(n)
			if times == 0 {
				return "", err
			}
			return fmt.Sprintf("throttled %d times; %s", times, fate), err
		},
	}, nil
}

func littleMemory(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
	n, leads := r.victim(ctx, rng)
	g, err := newGroup("memory", n.process().pid(), map[string]string{"memory.limit_in_bytes": "524288"})
	if err != nil {
		return nil, err
	}
	return &injured{
		target: n.ID, leader: leads, hold: between(rng, 2*time.Second, 5*time.Second),
		heal: func(context.Context) (string, error) {
			times, most := g.read("memory.failcnt", ""), g.read("memory.max_usage_in_bytes", "")
			fate := "it went on"
			if !n.running() {
				fate = fmt.Sprintf("it ended with %d", n.process().cmd.ProcessState.ExitCode())
			}
			if err := g.leave(n); err != nil {
				return "", err
			}
			_, err := r.revive(n)
			if times == 0 {
				return "", err
			}
			return fmt.Sprintf("the limit was hit %d times at %d KiB; %s", times, most>>10, fate), err
		},
	}, nil
}
