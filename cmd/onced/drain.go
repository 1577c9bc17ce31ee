package main

import (
	"net/http"
	"sync/atomic"

	"github.com/onced/onced/cluster"
	"github.com/onced/onced/idem"
)

// drain lets a node say that it is going before it goes: from begin on, /readyz
// answers 503 and every answer closes its connection, while calls are served as
// ever. Load balancers and clients that look at /readyz have gone elsewhere
// when the node stops accepting, so that nobody meets a closed port.
//
// http.Server.SetKeepAlivesEnabled(false) is not the way: it closes idle
// connections at once, and with them calls that are on their way.
type drain struct {
	*cluster.Node
	going atomic.Bool
}

func (d *drain) begin() { d.going.Store(true) }

// Ready is the node's, with its first check failed once the drain has begun.
func (d *drain) Ready() []idem.Check {
	checks := d.Node.Ready()
	if d.going.Load() {
		checks = append([]idem.Check{{Name: "staying", Detail: "the node is about to stop: ask another"}}, checks...)
	}
	return checks
}

// handler is h, whose answers close their connections once the drain has begun.
func (d *drain) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.going.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
