package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/onced/onced/bench"
)

// onced is a cluster of three of the real binary, with one of its log stores.
type onced struct {
	name      string // in the tables
	store     string // --log-store
	bin       string
	args      []string // more, for each node
	nodes     []*process
	endpoints []string
}

func (o *onced) begin(ctx context.Context, dir string) error {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	ports, err := freePorts(6)
	if err != nil {
		return err
	}
	var members []string
	for i := range 3 {
		members = append(members, fmt.Sprintf("n%d=127.0.0.1:%d", i+1, ports[3+i]))
		o.endpoints = append(o.endpoints, fmt.Sprintf("http://127.0.0.1:%d", ports[i]))
	}
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		args := append([]string{
			"server", "--node-id", name, "--data-dir", name, "--cluster", strings.Join(members, ","),
			"--http-addr", fmt.Sprintf("127.0.0.1:%d", ports[i]), "--peer-addr", fmt.Sprintf("127.0.0.1:%d", ports[3+i]),
		}, o.args...)
		args = append(args, "--log-store", o.store)
		p, err := launch(dir, name, nil, bin, args...)
		if err != nil {
			return err
		}
		o.nodes = append(o.nodes, p)
	}
	return await(ctx, o.name, o.nodes, func(ctx context.Context) error {
		for _, e := range o.endpoints {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, e+"/readyz", nil)
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("%s is not ready", e)
			}
		}
		return nil
	})
}

func (o *onced) end() { stop(syscall.SIGTERM, o.nodes...) }

func (o *onced) pids() []int { return pidsOf(o.nodes) }

func (o *onced) facts() facts {
	said, _ := output(o.bin, "version")
	args := append(slices.Clone(o.args), "--log-store", o.store)
	return facts{o.name, version(said, "onced "), "three nodes, `" + strings.Join(args, " ") + "`, else its defaults"}
}

func (o *onced) load(ctx context.Context, w work) (load, error) {
	endpoints, err := bench.Leader(ctx, o.endpoints)
	if err != nil {
		return load{}, err
	}
	b := &bench.Onced{Endpoints: endpoints, ValueSize: valueBytes, BatchSize: batch, Spread: bench.SpreadLeader}
	workload := ""
	switch w {
	case guard:
		workload = "lifecycle"
	case guardAny:
		workload, b.Spread = "lifecycle", bench.SpreadAny
	case reserve:
		workload = "reserve"
	case duplicate:
		workload = "replay"
	case duplicateAny:
		workload, b.Spread = "replay", bench.SpreadAny
	case guardBatch:
		workload = "batch"
	case dupBatch:
		workload, b.Replay = "batch", true
	default:
		return load{}, fmt.Errorf("no %s of %s", w, o.name)
	}
	if b.NeedsPrepared(workload) {
		if err := b.Prepare(ctx, duplicates); err != nil {
			return load{}, err
		}
	}
	start, err := b.Start(workload)
	if err != nil {
		return load{}, err
	}
	return load{start: start, close: func() {}, check: func() error {
		if b.DoubleGrants() > 0 {
			return errors.New("onced granted a key twice: this is the bug that must not be")
		}
		return nil
	}}, nil
}

func pidsOf(all []*process) []int {
	var pids []int
	for _, p := range all {
		pids = append(pids, p.pid())
	}
	return pids
}
