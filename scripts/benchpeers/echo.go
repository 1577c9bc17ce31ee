package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/onced/onced/bench"
)

// echoClients is how many clients ask the echo.
const echoClients = 64

// serveEcho is a server of net/http that sends back what it gets, until the
// process is ended.
func serveEcho() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	}))
}

// echo measures that server, in a process of its own, from a client of net/http.
func echo(ctx context.Context, dir string, each time.Duration) (limit, error) {
	self, err := os.Executable()
	if err != nil {
		return limit{}, err
	}
	server, err := launch(dir, "echo", nil, self, "echo-server")
	if err != nil {
		return limit{}, err
	}
	defer stop(syscall.SIGTERM, server)
	url := ""
	err = await(ctx, "the echo", []*process{server}, func(context.Context) error {
		said, err := os.ReadFile(server.log)
		if err == nil && !strings.HasSuffix(string(said), "\n") {
			err = errors.New("no address yet")
		}
		url = "http://" + strings.TrimSpace(string(said))
		return err
	})
	if err != nil {
		return limit{}, err
	}
	body := `{"key":"` + freshKey() + `","response":` + response + `}`
	start := func(int) (bench.Op, error) {
		c := &http.Client{Transport: &http.Transport{}}
		return func(ctx context.Context) (int, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				return 0, err
			}
			res, err := c.Do(req)
			if err != nil {
				return 0, err
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			return count(1, err, string(got) == body)
		}, nil
	}
	got, err := bench.Load{
		Clients: echoClients, For: each, Warmup: each / 4, Start: start,
		CPU: func() (time.Duration, error) { return treeCPU([]int{server.pid()}) },
	}.Run(ctx, nil)
	if err != nil {
		return limit{}, err
	}
	return limit{
		Name: fmt.Sprintf("net/http echo, %d clients", echoClients), P50: got.LatencyMs.P50, Rate: got.OpsPerSecond,
		CPU: got.ServerCpuUs, ClientCPU: got.ClientCpuUs,
	}, nil
}
