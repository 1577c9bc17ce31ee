package client

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// endpoint is a node's base URL, without a slash at the end.
type endpoint struct {
	base   string
	scheme string
	host   string // of the URL, with its port
	path   bool
}

// endpoints are the nodes to ask: those given, then those learned.
type endpoints struct {
	mu      sync.Mutex // guards all below
	given   []*endpoint
	learned []*endpoint
	current *endpoint // the one that answered last
}

func newEndpoints(urls []string) (*endpoints, error) {
	s := &endpoints{}
	for _, u := range urls {
		e, err := parseEndpoint(u)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(s.given, e.same) {
			s.given = append(s.given, e)
		}
	}
	s.current = s.given[0]
	return s, nil
}

func parseEndpoint(s string) (*endpoint, error) {
	full := strings.TrimRight(strings.TrimSpace(s), "/")
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, invalid(fmt.Sprintf("endpoint %q is not a base URL such as %s", s, DefaultEndpoint))
	}
	return &endpoint{base: full, scheme: u.Scheme, host: u.Host, path: u.Path != ""}, nil
}

func (e *endpoint) same(o *endpoint) bool { return e.base == o.base }

// order lists the endpoints as one call asks them, the one that answered last
// first.
func (s *endpoints) order() []*endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.given, s.learned)
	i := max(0, slices.Index(all, s.current))
	return slices.Concat(all[i:], all[:i])
}

// keep makes e the one to ask first.
func (s *endpoints) keep(e *endpoint) {
	s.mu.Lock()
	s.current = e
	s.mu.Unlock()
}

// learn replaces what was learned before. Endpoints that are given already are
// left out; the current one stays as long as it is known.
func (s *endpoints) learn(told []*endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var learned []*endpoint
	for _, e := range told {
		if slices.ContainsFunc(s.given, e.same) || slices.ContainsFunc(learned, e.same) {
			continue
		}
		if i := slices.IndexFunc(s.learned, e.same); i >= 0 {
			e = s.learned[i]
		}
		learned = append(learned, e)
	}
	s.learned = learned
	if !slices.Contains(s.given, s.current) && !slices.Contains(s.learned, s.current) {
		s.current = s.given[0]
	}
}

// neighbour gives the endpoint of a node that e told of, nil where its address
// means nothing to this client, or must not be trusted: another scheme would
// take the token from an encrypted connection to an open one.
func (e *endpoint) neighbour(address string) *endpoint {
	if address == "" || e.path {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = e.scheme + "://" + address
	}
	n, err := parseEndpoint(address)
	if err != nil || n.scheme != e.scheme || n.path {
		return nil
	}
	if onlyThere(n.host) && !onlyThere(e.host) {
		return nil
	}
	return n
}

// onlyThere tells whether host names the machine that says so and no other.
func onlyThere(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if name == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// leave makes the endpoint after e the one to ask first, unless another call
// has moved on already.
func (s *endpoints) leave(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != e {
		return
	}
	all := slices.Concat(s.given, s.learned)
	s.current = all[(slices.Index(all, e)+1)%len(all)]
}
