package httpapi

import (
	"net/url"
	"strings"
)

// memo remembers what the router said to the paths that come again and again:
// those without a key in them, of namespaces that exist. The router takes about
// as long for a path as all the decoding of a call takes, and it says the same
// each time: it looks at nothing but the path.
type memo struct{ known shelf[string, matched] }

// matched is what a path leads to, its namespace checked.
type matched struct {
	route     *route // nil: not known
	namespace string
}

// find looks u up. A path in another spelling than its usual one, which has a
// RawPath, is never remembered.
func (m *memo) find(u *url.URL) matched {
	if u.RawPath != "" {
		return matched{}
	}
	to, _ := m.known.get(u.Path)
	return to
}

func (m *memo) add(u *url.URL, to matched) {
	if u.RawPath == "" {
		m.known.put(strings.Clone(u.Path), to)
	}
}
