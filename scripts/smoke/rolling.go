package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// readyEvery is how often a client of the rolling restart looks at /readyz. It
// is well under the servers' --drain-delay, as a load balancer's must be.
const readyEvery = 100 * time.Millisecond

// rolling restarts every node, one after the other, under the load of clients
// that try nothing twice: each request goes once, to a node whose last /readyz
// was 200, and must be answered with what was asked for.
func (c *cluster) rolling(ctx context.Context, clients, rounds int) (acked []*write, err error) {
	r := &roller{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, e := range c.endpoints {
		n := &rollingNode{endpoint: e}
		r.nodes = append(r.nodes, n)
		n.look(ctx)
		running.Go(func() { n.watch(ctx) })
	}
	for n := range clients {
		running.Go(func() { r.client(ctx, n) })
	}
	led := 0
	err = func() error {
		if err := r.more(ctx, 200); err != nil {
			return err
		}
		for range rounds {
			for n := range r.nodes {
				leader, err := c.run("leader")
				if err != nil {
					return err
				}
				name := fmt.Sprint(n + 1)
				if leader == name {
					led++
				}
				if _, err := c.run("restart", name); err != nil {
					return err
				}
				if err := r.nodes[n].becomesReady(ctx); err != nil {
					return err
				}
				if err := r.more(ctx, 200); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	cancel()
	running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf("rolling: %d requests, refused %d\n", r.requests, r.refused)
	fmt.Printf("rolling: %d restarts, %d of the leader, slowest answer %s, moments without a ready node %d\n",
		rounds*len(r.nodes), led, r.slowest.Round(time.Millisecond), r.nobody)
	if r.refused > 0 {
		err = errors.Join(err, fmt.Errorf("rolling restart: %d of %d requests were refused:\n%s", r.refused, r.requests, strings.Join(r.details, "\n")))
	}
	return r.acked, err
}

// rollingNode is a node as a client sees it that looks at /readyz alone.
type rollingNode struct {
	endpoint string
	ready    atomic.Bool
}

func (n *rollingNode) watch(ctx context.Context) {
	look := time.NewTicker(readyEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			n.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// probes makes a connection for each look: one that is kept would tell nothing
// of whether new ones are accepted.
var probes = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (n *rollingNode) look(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.endpoint+"/readyz", nil)
	if err != nil {
		return
	}
	res, err := probes.Do(req)
	if err != nil {
		n.ready.Store(false)
		return
	}
	res.Body.Close()
	n.ready.Store(res.StatusCode == http.StatusOK)
}

func (n *rollingNode) becomesReady(ctx context.Context) error {
	limit := time.NewTimer(writeTime)
	defer limit.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !n.ready.Load() {
		select {
		case <-look.C:
		case <-limit.C:
			return fmt.Errorf("%s is not ready within %s of its restart", n.endpoint, writeTime)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// roller is all clients of a rolling restart.
type roller struct {
	nodes []*rollingNode

	mu       sync.Mutex // guards the rest
	acked    []*write
	requests int
	refused  int
	nobody   int
	slowest  time.Duration
	details  []string // of the first refusals
}

// client reserves and commits key after key until ctx ends. Its keys are its
// own, so every answer but the one wanted is a refusal.
func (r *roller) client(ctx context.Context, n int) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 7 * time.Second}
	next := n
	for i := 0; ctx.Err() == nil; i++ {
		w := &write{
			key: fmt.Sprintf("rolling-%d-%d", n, i), attemptID: rand.Text(),
			request: fmt.Sprintf(`{"client":%d,"n":%d}`, n, i), response: fmt.Sprintf(`{"n":%d,"of":"r%d"}`, i, n),
		}
		answer := r.ask(ctx, client, &next, "reserve", idem.ReserveRequest{
			Key: &w.key, Request: jsontext.Value(w.request), AttemptID: w.attemptID,
		})
		if answer == nil {
			continue
		}
		w.token = answer.Token
		answer = r.ask(ctx, client, &next, "commit", idem.SettleRequest{
			Key: &w.key, Token: &w.token, Response: jsontext.Value(w.response),
		})
		if answer == nil || answer.Record == nil {
			continue
		}
		w.record, w.ackedAt = *answer.Record, time.Now()
		r.mu.Lock()
		r.acked = append(r.acked, w)
		r.mu.Unlock()
	}
}

// ask sends one request once and counts it. A request that was begun is
// finished, whatever becomes of the run.
func (r *roller) ask(ctx context.Context, client *http.Client, next *int, verb string, body any) *idem.Answer {
	node := r.pick(ctx, next)
	if node == nil {
		return nil // the run is over
	}
	began := time.Now()
	answer, err := askOnce(context.WithoutCancel(ctx), client, node.endpoint+"/v1/namespaces/default/"+verb, body)
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.slowest = max(r.slowest, took)
	if err != nil {
		r.refused++
		if len(r.details) < 10 {
			r.details = append(r.details, fmt.Sprintf("%s %s %s after %s: %v", began.Format("15:04:05.000"), verb, node.endpoint, took.Round(time.Millisecond), err))
		}
		return nil
	}
	return answer
}

// pick gives the next node whose last /readyz was 200, and waits for one when
// there is none.
func (r *roller) pick(ctx context.Context, next *int) *rollingNode {
	for first := true; ctx.Err() == nil; first = false {
		for range r.nodes {
			*next++
			if n := r.nodes[*next%len(r.nodes)]; n.ready.Load() {
				return n
			}
		}
		if first {
			r.mu.Lock()
			r.nobody++
			r.mu.Unlock()
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// askOnce sends a request that nothing sends twice: a POST without GetBody and
// without an Idempotency-Key header is not repeated by net/http once a byte of
// it was written, and that none took a second connection before is looked at.
func askOnce(ctx context.Context, client *http.Client, url string, body any) (*idem.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	connections := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connections++ }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s: %s", res.Status, reply)
	case connections > 1:
		return nil, fmt.Errorf("it took %d connections", connections)
	}
	var answer idem.Answer
	if err := json.Unmarshal(reply, &answer); err != nil {
		return nil, err
	}
	if answer.Outcome != "reserved" && answer.Outcome != "committed" {
		return nil, fmt.Errorf("answered %q", answer.Outcome)
	}
	return &answer, nil
}

// more returns when n more keys are committed than at the call.
func (r *roller) more(ctx context.Context, n int) error {
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.acked)
	}
	want := count() + n
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.NewTimer(2 * writeTime)
	defer limit.Stop()
	for count() < want {
		select {
		case <-look.C:
		case <-limit.C:
			return errors.New("rolling restart: the writes do not go on")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
