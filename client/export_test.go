package client

import "testing"

// Endpoints counts the endpoints that are known.
func (c *Client) Endpoints() int { return len(c.endpoints.order()) }

// Neighbour gives the URL that is learned from address when from told of it.
func Neighbour(t testing.TB, from, address string) string {
	t.Helper()
	e, err := parseEndpoint(from)
	if err != nil {
		t.Fatal(err)
	}
	n := e.neighbour(address)
	if n == nil {
		return ""
	}
	return n.base
}
