package main

import (
	"net/http"
	"sync/atomic"

	"github.com/onced/onced/cluster"
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

func (d *drain) begin() {
	d.going.Store(true)
	d.Node.Drain()
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
