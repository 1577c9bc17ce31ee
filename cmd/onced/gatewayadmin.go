package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onced/onced/gateway"
)

// readyTime bounds what /readyz asks of the cluster.
const readyTime = time.Second

// gatewayAdmin is the second port of a gateway: health, readiness, metrics.
type gatewayAdmin struct {
	guard    *gateway.Guard
	going    atomic.Bool // /readyz says that it stops
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	inside   *prometheus.HistogramVec
	upstream *prometheus.HistogramVec
	reloads  *prometheus.CounterVec
}

func newGatewayAdmin() *gatewayAdmin {
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	a := &gatewayAdmin{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_gateway_requests_total", Help: "Requests by route, outcome and the code of a problem.",
		}, []string{"route", "outcome", "code"}),
		inside: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onced_gateway_overhead_seconds", Help: "Time of guarded requests outside the upstream.", Buckets: buckets,
		}, []string{"route", "outcome"}),
		upstream: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onced_gateway_upstream_seconds", Help: "Time of guarded requests in the upstream.", Buckets: buckets,
		}, []string{"route"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_gateway_reloads_total", Help: "Reloads of the rules by result: ok or refused.",
		}, []string{"result"}),
	}
	a.registry.MustRegister(a.requests, a.inside, a.upstream, a.reloads,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return a
}

func (a *gatewayAdmin) observe(e gateway.Event) {
	a.requests.WithLabelValues(e.Rule, e.Outcome, e.Code).Inc()
	if e.Outcome == "passed" {
		return
	}
	a.inside.WithLabelValues(e.Rule, e.Outcome).Observe((e.Duration - e.Upstream).Seconds())
	if e.Upstream > 0 {
		a.upstream.WithLabelValues(e.Rule).Observe(e.Upstream.Seconds())
	}
}

// notReady says why no request can be guarded, "" when they can.
func (a *gatewayAdmin) notReady(ctx context.Context) string {
	if a.going.Load() {
		return "the gateway is about to stop: ask another"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	err := a.guard.Check(ctx)
	if _, ok := errors.AsType[*gateway.PolicyError](err); ok {
		return err.Error()
	}
	if err != nil {
		return fmt.Sprintf("the cluster does not answer: %v", err)
	}
	return ""
}

func (a *gatewayAdmin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if why := a.notReady(r.Context()); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	return mux
}
