package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/onced/onced/cluster"
	"github.com/onced/onced/idem"
)

// devReadyTime is how long dev waits for its own nodes. On an idle machine they
// are ready in well under a second.
const devReadyTime = 30 * time.Second

type devOptions struct {
	nodes    int
	port     int // 0: 4747, or the next free block
	dataDir  string
	logLevel string
	out      output
}

func (a *app) devCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster in this process, for trying things out",
		Long: `Run a whole cluster in this process, in memory unless --data-dir is given.

Node i serves HTTP on PORT+10(i-1) and the other nodes on the port after it.
Without --port the first block that is free is taken, from 4747 on; with it
exactly these ports, or the start ends with exit code 78 and names the busy
one. With --data-dir the ports of the first start are kept.

Ctrl-C stops all nodes in good order; a second one at once.`,
		Example: `  onced dev
  onced dev --nodes 1 --port 5000
  onced dev --data-dir ./dev-data
  onced dev -o json          # one line when ready: {"endpoints":[...]}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.nodes < 1 || o.nodes > 5 {
				return usagef("--nodes %d: use 1 to 5 (3 can lose one)", o.nodes)
			}
			if cmd.Flags().Changed("port") && (o.port < 1 || httpPort(o.port, o.nodes)+1 > 65535) {
				return usagef("--port %d: use 1 to %d", o.port, 65534-portStep*(o.nodes-1))
			}
			var level slog.Level
			if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
				return usagef("--log-level %s: use debug, info, warn or error", quote(o.logLevel))
			}
			var logged slog.LevelVar
			logged.Set(level)
			if !cmd.Flags().Changed("log-level") {
				// Nodes that stop all at once complain of each other; that is
				// no news to who pressed Ctrl-C.
				context.AfterFunc(cmd.Context(), func() { logged.Set(slog.LevelError + 1) })
			}
			return a.dev(cmd.Context(), o, newLogger(a.stderr, &logged, false))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, "number of nodes, 1 to 5")
	cmd.Flags().IntVar(&o.port, "port", 0, "HTTP port of the first node (default 4747, or the next free block)")
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "", "keep the data here (default: in memory)")
	cmd.Flags().StringVar(&o.logLevel, "log-level", "error", "debug, info, warn or error")
	o.out.addFlag(cmd)
	return cmd
}

// dev runs all nodes until ctx ends.
func (a *app) dev(ctx context.Context, o devOptions, logger *slog.Logger) error {
	block, notice, err := o.bind()
	if err != nil {
		return err
	}
	defer block.close()
	if notice != "" {
		fmt.Fprintln(a.stderr, notice)
	}
	halted := make(chan *cluster.HaltError, o.nodes)
	instances, err := openBlock(ctx, block, o, logger, func(e *cluster.HaltError) { halted <- e })
	if err != nil {
		return haltExit("dev", err)
	}
	ready := make(chan error, 1)
	var status idem.ClusterStatus
	go func() {
		limit, cancel := context.WithTimeout(ctx, devReadyTime)
		defer cancel()
		for _, i := range instances {
			var err error
			if status, err = i.untilReady(limit, nil); err != nil {
				ready <- err
				return
			}
		}
		ready <- nil
	}()
	select {
	case err = <-ready:
		if ctx.Err() != nil {
			return closeAll(instances)
		}
		if err == nil {
			err = a.printDev(block.base, o, status)
		}
		if err != nil {
			return errors.Join(&exitError{exitInternal, fmt.Sprintf("the nodes are not ready: %v", err), ""}, closeAll(instances))
		}
	case e := <-halted:
		return haltExit("dev", e)
	}
	select {
	case <-ctx.Done():
		return closeAll(instances)
	case e := <-halted:
		return haltExit("dev", e)
	}
}

// bind listens on the ports that the nodes are to have; notice tells when they
// are not those that one would expect.
func (o *devOptions) bind() (b *portBlock, notice string, err error) {
	port := o.port
	kept, err := keptPort(o.dataDir, o.nodes)
	if err != nil {
		return nil, "", err
	}
	if kept != 0 {
		if port != 0 && port != kept {
			return nil, "", &exitError{
				exitRefused,
				fmt.Sprintf("the data in %s was made with --port %d, and the nodes know each other by it", o.dataDir, kept),
				"leave --port out, or take another --data-dir",
			}
		}
		port = kept
	}
	if port != 0 {
		b, err = bindBlock(port, o.nodes)
		if err != nil {
			hint := "stop what uses it, choose another --port, or leave --port out to take the next free ports"
			if kept != 0 {
				hint = fmt.Sprintf("stop what uses it: the data in %s was made with these ports", o.dataDir)
			}
			return nil, "", &exitError{exitRefused, err.Error(), hint}
		}
	} else {
		var busy error
		b, busy, err = bindFreeBlock(o.nodes)
		if err != nil {
			return nil, "", &exitError{exitRefused, "no free ports: " + err.Error(), ""}
		}
		if busy != nil {
			notice = fmt.Sprintf("%v: taking the next free ports, from %d on", busy, b.base)
		}
	}
	if o.dataDir != "" && kept == 0 {
		if err := keepPort(o.dataDir, o.nodes, b.base); err != nil {
			b.close()
			return nil, "", err
		}
	}
	return b, notice, nil
}

// devFile says in a data directory with how many nodes and on what ports it
// was made: the nodes know each other by their addresses.
const devFile = "dev.txt"

// keptPort gives the port of an earlier start on dir, 0 when there was none.
func keptPort(dir string, nodes int) (int, error) {
	if dir == "" {
		return 0, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, devFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, refusef("--data-dir: %v", err)
	}
	var n, port int
	if _, err := fmt.Sscanf(string(b), "nodes %d port %d\n", &n, &port); err != nil || port < 1 || port > 65535 {
		return 0, refusef("%s is damaged", filepath.Join(dir, devFile))
	}
	if n != nodes {
		return 0, &exitError{
			exitRefused,
			fmt.Sprintf("the data in %s was made with --nodes %d", dir, n),
			fmt.Sprintf("give --nodes %d, or take another --data-dir", n),
		}
	}
	return port, nil
}

func keepPort(dir string, nodes, port int) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, devFile), fmt.Appendf(nil, "nodes %d port %d\n", nodes, port), 0o600)
	}
	if err != nil {
		return refusef("--data-dir: %v", err)
	}
	return nil
}

// openBlock opens all nodes at once: on a first start each waits for the
// others.
func openBlock(ctx context.Context, block *portBlock, o devOptions, logger *slog.Logger, onHalt func(*cluster.HaltError)) ([]*instance, error) {
	members := make([]cluster.Member, o.nodes)
	for n := range members {
		members[n] = cluster.Member{ID: "n" + strconv.Itoa(n+1), Address: block.peers[n].Addr().String()}
	}
	instances := make([]*instance, o.nodes)
	var group errgroup.Group
	for n := range instances {
		group.Go(func() (err error) {
			config := cluster.Config{
				NodeID:        members[n].ID,
				Members:       members,
				Listener:      block.peers[n],
				HTTPAdvertise: "http://" + block.http[n].Addr().String(),
				Multiplier:    1,
				OnHalt:        onHalt,
			}
			if o.dataDir != "" {
				config.DataDir = filepath.Join(o.dataDir, members[n].ID)
			}
			instances[n], err = openInstance(ctx, instanceConfig{
				cluster:        config,
				requestTimeout: 5 * time.Second,
				logger:         logger,
				listenHTTP:     func() (net.Listener, error) { return block.http[n], nil },
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, closeAll(instances))
	}
	return instances, nil
}

// closeAll stops all nodes at once. Nobody is left to hand leadership to.
func closeAll(instances []*instance) error {
	errs := make([]error, len(instances))
	var group sync.WaitGroup
	for n, i := range instances {
		if i != nil {
			group.Go(func() { errs[n] = i.close(0) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// printDev tells where the nodes are and what to type first.
func (a *app) printDev(base int, o devOptions, status idem.ClusterStatus) error {
	endpoints := make([]string, o.nodes)
	for n := range endpoints {
		endpoints[n] = "http://127.0.0.1:" + strconv.Itoa(httpPort(base, n+1))
	}
	if o.out.json {
		return a.printJSON(struct {
			Endpoints []string `json:"endpoints"`
		}{endpoints})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", readyLine(status))
	for n, e := range endpoints {
		fmt.Fprintf(&b, "  n%d  %s\n", n+1, e)
	}
	where := "in memory: gone when this ends"
	if o.dataDir != "" {
		where = "in " + o.dataDir
	}
	fmt.Fprintf(&b, "\ndata %s. Try, in another terminal:\n\n", where)
	fmt.Fprintf(&b, "  export ONCED_ENDPOINTS=%s\n", strings.Join(endpoints, ","))
	fmt.Fprintf(&b, "  curl -s %s/v1/namespaces/default/reserve -H 'Content-Type: application/json' -d '{\"key\":\"order-0001\",\"request\":{\"amount\":10}}'\n", endpoints[0])
	fmt.Fprintf(&b, "  curl -s %s/v1/namespaces/default/records/order-0001\n", endpoints[len(endpoints)-1])
	fmt.Fprintf(&b, "\nCtrl-C stops it.\n")
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
