package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metrics are the figures of one node at one moment, by name with labels as
// Prometheus writes them.
type metrics map[string]float64

// parseMetrics reads Prometheus' text format. Timestamps and exemplars are not
// expected.
func parseMetrics(text string) (metrics, error) {
	m := metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("metrics: no value in %q", line)
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		m[line[:at]] = v
	}
	return m, nil
}

// sum adds up every series of that name.
func (m metrics) sum(name string) (sum float64) {
	for series, v := range m {
		if base, _, _ := strings.Cut(series, "{"); base == name {
			sum += v
		}
	}
	return sum
}

// applied is how long log entries of one kind took to apply, by upper bounds of
// buckets: what is in m beyond before.
type applied map[float64]float64

func (m metrics) applied(entry string) applied {
	a := applied{}
	for series, v := range m {
		var bound string
		if n, _ := fmt.Sscanf(series, `onced_apply_duration_seconds_bucket{entry="`+entry+`",le=%q}`, &bound); n == 1 {
			le, err := strconv.ParseFloat(bound, 64)
			if err == nil {
				a[le] = v
			}
		}
	}
	return a
}

func (a applied) add(b applied, times float64) {
	for le, v := range b {
		a[le] += times * v
	}
}

// quantile gives, in seconds, the least bound that a share q of the entries did
// not pass; infinity when there were none, so that no target is reached.
func (a applied) quantile(q float64) float64 {
	for _, le := range slices.Sorted(maps.Keys(a)) {
		if a[le] > 0 && a[le] >= q*a[math.Inf(1)] {
			return le
		}
	}
	return math.Inf(1)
}

// liveHeap is what the last garbage collection found alive. The runtime sets the
// size at which the next begins to that, and GOGC percent more; when the memory
// limit has a say in it, what is allocated now stands for it, garbage included.
func (m metrics) liveHeap() float64 {
	next, percent, allocated := m["go_memstats_next_gc_bytes"], m["go_gc_gogc_percent"], m["go_memstats_heap_alloc_bytes"]
	if m["go_memstats_last_gc_time_seconds"] == 0 || percent <= 0 || next >= 0.95*m["go_gc_gomemlimit_bytes"] {
		return allocated
	}
	return math.Min(allocated, next/(1+percent/100))
}

// collected is when the last garbage collection ended.
func (m metrics) collected() time.Time {
	return time.UnixMicro(int64(m["go_memstats_last_gc_time_seconds"] * 1e6))
}

// plainHTTP has a connection for each request: one that is kept would tell
// nothing of whether a node takes new ones.
var plainHTTP = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends one request and gives the body of a 2xx answer.
func ask(ctx context.Context, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := plainHTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, b)
	}
	return string(b), err
}

func scrape(ctx context.Context, url string) (metrics, error) {
	text, err := ask(ctx, http.MethodGet, url+"/metrics", "")
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}
