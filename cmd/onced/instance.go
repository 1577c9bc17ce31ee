package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/onced/onced/cluster"
	"github.com/onced/onced/httpapi"
	"github.com/onced/onced/httpapi/plainhttp"
	"github.com/onced/onced/idem"
)

// How long a stop may take: the node says for the drain delay that it is going
// (drain.go), then calls under way get drainTime to end by
// themselves, then cutTime to be answered 503; handing over leadership gets
// handOverTime. With the usual delay they stay well under the 10 s that process
// managers commonly wait.
const (
	drainTime    = 3 * time.Second
	cutTime      = time.Second
	handOverTime = 3 * time.Second
)

// gcPercent lets the heap grow to five times what lives before it is collected:
// a node's garbage is short-lived and much, and to look at the records again
// and again for its sake costs much of the processor. GOMEMLIMIT bounds it all
// the same.
const gcPercent = 400

// relaxGC sets gcPercent, unless whoever started the process has said
// otherwise. The runtime reads GOGC itself, whatever the command was given.
func relaxGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// instance is one node in this process: the node, and its HTTP server.
type instance struct {
	node     *cluster.Node
	drain    *drain
	server   *plainhttp.Server
	serveErr chan error
	cut      context.CancelFunc // ends the calls under way
}

// instanceConfig is what an instance is opened with.
type instanceConfig struct {
	cluster        cluster.Config // Metrics, Version and Logger are filled in
	requestTimeout time.Duration
	logger         *slog.Logger
	// listenHTTP gives the API's listener. It is called when the node is open:
	// a node that may not start must never have answered /healthz.
	listenHTTP func() (net.Listener, error)
}

// openInstance opens the node and then serves the API. The error is a
// *cluster.HaltError when the node refuses to start.
func openInstance(ctx context.Context, c instanceConfig) (*instance, error) {
	relaxGC()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.cluster.Metrics = registry
	c.cluster.Version = buildVersion()
	c.cluster.Logger = c.logger
	node, err := cluster.Open(ctx, c.cluster)
	if err != nil {
		return nil, err
	}
	listener, err := c.listenHTTP()
	if err != nil {
		return nil, errors.Join(err, closeNode(node, 0))
	}
	going := &drain{Node: node}
	api := httpapi.New(httpapi.Options{
		Node:           going,
		Logger:         c.logger,
		Registry:       registry,
		RequestTimeout: c.requestTimeout,
		NewID:          rand.Text,
		Version:        buildVersion(),
		Now:            time.Now,
	})
	i := &instance{node: node, drain: going, serveErr: make(chan error, 1)}
	server := httpapi.NewHTTPServer(api)
	server.Handler = going.handler(server.Handler)
	server.ErrorLog = slog.NewLogLogger(c.logger.Handler(), slog.LevelWarn)
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	i.cut = cut
	server.BaseContext = func(net.Listener) context.Context { return base }
	i.server = plainhttp.New(server)
	go func() {
		if err := i.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			i.serveErr <- err
		}
	}()
	return i, nil
}

// notReady gives in words why the node cannot serve yet, "" when it can. The
// first check that fails is the cause, those after it follow from it.
func (i *instance) notReady() string {
	for _, c := range i.node.Ready() {
		if !c.OK {
			return c.Detail
		}
	}
	return ""
}

// leave tells that the node is going and serves on for delay; a node that was
// not ready has nobody to tell. It returns early when the API fails.
func (i *instance) leave(delay time.Duration) {
	ready := i.notReady() == ""
	i.drain.begin()
	if !ready || delay <= 0 {
		return
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-i.serveErr:
	}
}

// close stops accepting, lets the calls under way end, hands over leadership
// for at most handOver, and closes the node.
func (i *instance) close(handOver time.Duration) error {
	drain, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if i.server.Shutdown(drain) != nil {
		i.cut()
		cutOff, cancel := context.WithTimeout(context.Background(), cutTime)
		defer cancel()
		if i.server.Shutdown(cutOff) != nil {
			_ = i.server.Close()
		}
	}
	i.cut()
	return closeNode(i.node, handOver)
}

func closeNode(node *cluster.Node, handOver time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), handOver)
	defer cancel()
	return node.Close(ctx)
}

// untilReady gives the cluster's state as soon as the node can serve. It calls
// waiting, once, if that takes more than a second. The error is ctx's, with
// what is missing in words.
func (i *instance) untilReady(ctx context.Context, waiting func(why string)) (idem.ClusterStatus, error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for {
		why := i.notReady()
		if why == "" {
			if status := i.node.Status(ctx); status.Leader != nil {
				return status, nil
			}
		}
		select {
		case <-poll.C:
		case <-patience.C:
			if waiting != nil {
				waiting(why)
			}
		case <-ctx.Done():
			return idem.ClusterStatus{}, fmt.Errorf("%w: %s", ctx.Err(), why)
		}
	}
}
