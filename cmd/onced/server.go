package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onced/onced/cluster"
	"github.com/onced/onced/idem"
)

func (a *app) serverCommand() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run one node",
		Long: `Run one node of a cluster. Every node is told the same --cluster; without it
the node is a cluster of one.

Each flag can also be an environment variable (--node-id: ONCED_NODE_ID) or a
key of the TOML file that --config names (node-id = "n1"). The flag wins over
the environment, the environment over the file.

SIGTERM or SIGINT: /readyz answers 503 while the node serves on for
--drain-delay, so that load balancers go elsewhere; then the calls under way
end, leadership is handed over, and it exits 0. Nobody is refused. A second
signal exits at once. Exit codes: 70 halted (damage, an unknown
entry, a diverged state), 71 the disk does not answer, 78 refused to start.`,
		Example: `  onced server --data-dir ./data

  # three nodes on one machine, each in its own terminal
  C=n1=127.0.0.1:4748,n2=127.0.0.1:4758,n3=127.0.0.1:4768
  onced server --node-id n1 --data-dir ./n1 --http-addr 127.0.0.1:4747 --peer-addr 127.0.0.1:4748 --cluster $C
  onced server --node-id n2 --data-dir ./n2 --http-addr 127.0.0.1:4757 --peer-addr 127.0.0.1:4758 --cluster $C
  onced server --node-id n3 --data-dir ./n3 --http-addr 127.0.0.1:4767 --peer-addr 127.0.0.1:4768 --cluster $C`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if configFile == "" {
				configFile = a.getenv("ONCED_CONFIG")
			}
			values, warnings, err := loadSettings(cmd, serverSettings, configFile, a.environ)
			if err != nil {
				return err
			}
			c, err := parseServerConfig(values)
			if err != nil {
				return err
			}
			logger := newLogger(a.stderr, c.logLevel, c.logJSON)
			for _, w := range warnings {
				logger.Warn(w)
			}
			return a.serve(cmd.Context(), c, logger)
		},
	}
	addSettingFlags(cmd, serverSettings)
	addConfigFlag(cmd, &configFile)
	return cmd
}

func newLogger(w io.Writer, level slog.Leveler, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// serve runs the node until ctx ends, and then stops it in good order.
func (a *app) serve(ctx context.Context, c serverConfig, logger *slog.Logger) error {
	// A busy HTTP port is found before anything is opened; the port is bound
	// for good when the node is open.
	if err := listenAndClose(c.httpAddr); err != nil {
		return busy("--http-addr", c.httpAddr, err)
	}
	peers, err := net.Listen("tcp", c.peerAddr)
	if err != nil {
		return busy("--peer-addr", c.peerAddr, err)
	}
	defer peers.Close()
	halted := make(chan *cluster.HaltError, 1)
	i, err := openInstance(ctx, instanceConfig{
		cluster: cluster.Config{
			NodeID:            c.nodeID,
			DataDir:           c.dataDir,
			Members:           c.members,
			Listener:          peers,
			PeerAdvertise:     c.peerAdvertise,
			HTTPAdvertise:     c.httpAdvertise,
			Multiplier:        c.multiplier,
			LogStore:          c.logStore,
			SnapshotThreshold: c.snapshotThreshold,
			Wall:              wallClock(),
			OnHalt:            func(e *cluster.HaltError) { halted <- e },
		},
		requestTimeout: c.requestTimeout,
		logger:         logger,
		listenHTTP: func() (net.Listener, error) {
			l, err := net.Listen("tcp", c.httpAddr)
			if err != nil {
				return nil, busy("--http-addr", c.httpAddr, err)
			}
			return l, nil
		},
	})
	if err != nil {
		if own, ok := errors.AsType[*exitError](err); ok {
			return own
		}
		return haltExit(c.nodeID, err)
	}
	fmt.Fprintf(a.stdout, "onced %s: node %s, API %s, other nodes at %s, data in %s\n",
		buildVersion(), c.nodeID, c.httpAdvertise, c.peerAdvertise, c.dataDir)
	watch, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	go func() {
		status, err := i.untilReady(watch, func(why string) { fmt.Fprintf(a.stdout, "not ready yet: %s\n", why) })
		if err == nil {
			fmt.Fprintln(a.stdout, readyLine(status))
		}
	}()

	select {
	case e := <-halted:
		// No good order any more: a halted node must not go on, not even to
		// drain.
		return haltExit(c.nodeID, e)
	case err := <-i.serveErr:
		return &exitError{exitInternal, fmt.Sprintf("%s: the HTTP API stopped: %v", c.nodeID, err), ""}
	case <-ctx.Done():
	}
	stopWatching()
	logger.Info("stopping: not ready from now on, serving for the drain delay", "delay", c.drainDelay)
	left := make(chan struct{})
	go func() { defer close(left); i.leave(c.drainDelay) }()
	select {
	case <-left:
	case e := <-halted:
		return haltExit(c.nodeID, e)
	}
	logger.Info("stopping: no new calls, handing over")
	if err := i.close(handOverTime); err != nil {
		return &exitError{exitInternal, fmt.Sprintf("%s: stopped, but not cleanly: %v", c.nodeID, err), ""}
	}
	logger.Info("stopped")
	return nil
}

// readyLine is what a person wants to know when the cluster works.
func readyLine(s idem.ClusterStatus) string {
	ids := make([]string, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		ids = append(ids, n.ID)
	}
	plural := "s"
	if s.Quorum.CanLose == 1 {
		plural = ""
	}
	return fmt.Sprintf("cluster %s ready, leader %s, can lose %d node%s", strings.Join(ids, ","), *s.Leader, s.Quorum.CanLose, plural)
}

func busy(flag, address string, err error) error {
	return &exitError{
		exitRefused,
		fmt.Sprintf("%s %s cannot be listened on: %v", flag, address, rootCause(err)),
		"stop what uses that port, or choose another with " + flag,
	}
}

// rootCause leaves out of a listening error what the sentence around it says
// already.
func rootCause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		err = op.Err
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
