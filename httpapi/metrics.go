package httpapi

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the figures of the edge. They are counted where the answer is
// given, so a replay of the log counts nothing again.
type metrics struct {
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	counters   shelf[series, prometheus.Counter]
	histograms shelf[string, prometheus.Observer]
	namespaces names
	handler    http.Handler
}

func newMetrics(reg *prometheus.Registry, version string) *metrics {
	m := &metrics{
		requests: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onced_requests_total",
			Help: "Answers by operation, outcome or problem code, and namespace; items of a batch count as their own operation.",
		}, []string{"operation", "outcome", "namespace"})),
		durations: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "onced_request_duration_seconds",
			Help:    "Time from the headers of a request to its answer, by operation; waits included.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"operation"})),
		handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
	}
	info := register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "onced_build_info", Help: "1, labelled with the version that runs.",
	}, []string{"version"}))
	info.WithLabelValues(version).Set(1)
	return m
}

// register adds c to reg, or gives the one that is there already: several
// servers of one process may share a registry.
func register[C prometheus.Collector](reg *prometheus.Registry, c C) C {
	var there prometheus.AlreadyRegisteredError
	if err := reg.Register(c); errors.As(err, &there) {
		if old, ok := there.ExistingCollector.(C); ok {
			return old
		}
	}
	return c
}

// count adds one answer. A namespace is a label only once it is known to
// exist, so that callers cannot make up series.
func (m *metrics) count(operation, outcome, namespace string) {
	k := series{operation, outcome, m.namespaces.label(namespace)}
	c, ok := m.counters.get(k)
	if !ok {
		c = m.requests.WithLabelValues(k.operation, k.outcome, k.namespace)
		m.counters.put(k, c)
	}
	c.Inc()
}

func (m *metrics) observe(operation string, took time.Duration) {
	h, ok := m.histograms.get(operation)
	if !ok {
		h = m.durations.WithLabelValues(operation)
		m.histograms.put(operation, h)
	}
	h.Observe(took.Seconds())
}

// series are the labels of one counter.
type series struct{ operation, outcome, namespace string }

// serveMetrics lets the Prometheus library write the answer.
func (c *call) serveMetrics() *reply {
	c.headers(c.w.Header())
	c.status, c.outcome, c.sent = http.StatusOK, "ok", true
	c.srv.metrics.handler.ServeHTTP(c.w, c.r)
	return nil
}

// names are the namespaces that decisions have shown to exist.
type names struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (n *names) learn(name string) {
	if n.label(name) == name {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
}

func (n *names) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
}

// label gives name when it is known, "" otherwise.
func (n *names) label(name string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.known[name] {
		return name
	}
	return ""
}
