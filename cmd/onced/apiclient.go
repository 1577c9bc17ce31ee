package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

const (
	defaultEndpoint = "http://127.0.0.1:4747"
	maxReplyBytes   = 64 << 20
)

// apiClient asks the nodes, one after the other, until one answers. It is
// small on purpose: one call, one round.
//
// Asking the next node after a broken connection is safe because every call
// that changes anything carries an attemptId or a token, the same on each try:
// the state machine gives the same answer again.
type apiClient struct {
	endpointList string
	timeout      time.Duration
	out          output
	ifMatch      string // the If-Match header of every call; "": none
}

func (c *apiClient) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.endpointList, "endpoints", "", "base URLs of nodes, comma-separated (default $ONCED_ENDPOINTS, or "+defaultEndpoint+")")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 5*time.Second, "how long each node may take to decide")
	c.out.addFlag(cmd)
}

// endpoints gives the base URLs to ask, in order, once it is known that there is
// time to ask them.
func (c *apiClient) endpoints(a *app) ([]string, error) {
	from, list := "--endpoints", c.endpointList
	if list == "" {
		from, list = "ONCED_ENDPOINTS", a.getenv("ONCED_ENDPOINTS")
	}
	if list == "" {
		list = defaultEndpoint
	}
	if c.timeout <= 0 {
		return nil, usagef("--timeout %s: use a duration above zero", c.timeout)
	}
	var endpoints []string
	for _, e := range strings.Split(list, ",") {
		e = strings.TrimRight(strings.TrimSpace(e), "/")
		if e == "" {
			continue
		}
		if !strings.Contains(e, "://") {
			e = "http://" + e
		}
		u, err := url.Parse(e)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, usagef("%s: %s is not a base URL such as %s", from, quote(e), defaultEndpoint)
		}
		endpoints = append(endpoints, e)
	}
	if len(endpoints) == 0 {
		return nil, usagef("%s names no endpoint", from)
	}
	return endpoints, nil
}

// reply is a node's answer.
type reply struct {
	status int
	body   []byte
}

// unreachableError is a round in which no node answered.
type unreachableError struct {
	err  error // of the last one
	sent bool  // a request may have reached one
}

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// problemError is an answer that is no 2xx.
type problemError struct {
	status  int
	problem idem.Problem
	body    []byte
}

func (e *problemError) Error() string { return e.problem.Detail }

// do sends one call, with body (nil: none) as JSON; wait is what the call may
// wait beyond being decided. A node that cannot be reached, breaks off or
// answers 503 is followed by the next. The error is a *problemError,
// *unreachableError, *exitError or ctx's.
func (c *apiClient) do(ctx context.Context, a *app, method, path string, body []byte, wait time.Duration) (*reply, error) {
	endpoints, err := c.endpoints(a)
	if err != nil {
		return nil, err
	}
	client := c.httpClient(wait)
	var problem *problemError
	unreachable := &unreachableError{}
	for _, endpoint := range endpoints {
		r, err := c.once(ctx, client, method, endpoint+path, body)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			unreachable.err = err
			unreachable.sent = unreachable.sent || !notSent(err)
			continue
		}
		if r.status/100 == 2 {
			return r, nil
		}
		if problem, err = asProblem(endpoint, r); err != nil {
			return nil, err
		}
		if r.status != http.StatusServiceUnavailable {
			return nil, problem
		}
		unreachable.sent = unreachable.sent || problem.problem.Applied != idem.AppliedNo
	}
	if problem == nil {
		return nil, unreachable
	}
	if unreachable.sent {
		problem.problem.Applied = idem.AppliedUnknown // one of the nodes may have
	}
	return nil, problem
}

// httpClient gives what one round is made with.
func (c *apiClient) httpClient(wait time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	// The node answers within timeout + wait; the second more is for the way.
	return &http.Client{Transport: transport, Timeout: c.timeout + wait + time.Second}
}

func (c *apiClient) once(ctx context.Context, client *http.Client, method, url string, body []byte) (*reply, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.ifMatch != "" {
		req.Header.Set("If-Match", c.ifMatch)
	}
	req.Header.Set("Onced-Timeout", c.timeout.String())
	req.Header.Set("User-Agent", "onced/"+buildVersion())
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxReplyBytes))
	if err != nil {
		return nil, err
	}
	return &reply{res.StatusCode, b}, nil
}

// notSent tells whether err means that no byte of the call reached a node.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// asProblem reads an error answer; one that is none of ours is an error of its
// own.
func asProblem(endpoint string, r *reply) (*problemError, error) {
	p := &problemError{status: r.status, body: r.body}
	if err := json.Unmarshal(r.body, &p.problem); err == nil && p.problem.Code != "" {
		if p.problem.Detail == "" {
			p.problem.Detail = p.problem.Title
		}
		return p, nil
	}
	if r.status == http.StatusServiceUnavailable { // of a proxy in between
		p.problem.Code = idem.CodeUnavailable
		p.problem.Detail = endpoint + " answered 503"
		p.problem.Applied = idem.AppliedUnknown
		return p, nil
	}
	return nil, &exitError{
		exitFor("", r.status),
		fmt.Sprintf("%s answered %d, and not as a node of onced does", endpoint, r.status),
		"check --endpoints and ONCED_ENDPOINTS",
	}
}
