package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onced/onced/gateway"
)

// BenchmarkProxy is what the proxy costs beside the cluster: its decisions come
// from the machine in this process, without a log. scripts/bench.sh gateway
// measures the whole.
func BenchmarkProxy(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, `{"success":true}`)
	}))
	defer upstream.Close()
	f := newFront(b, upstream.URL, gateway.Rule{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	post := func(b *testing.B, url, key, replayed string) {
		req, _ := http.NewRequest("POST", url, strings.NewReader(`{"amount":10}`))
		req.GetBody = nil
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		res, err := transport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Idempotent-Replayed") != replayed {
			b.Fatalf("%d %v", res.StatusCode, res.Header)
		}
	}
	n := 0
	b.Run("upstream alone", func(b *testing.B) {
		for b.Loop() {
			post(b, upstream.URL, "order-0000", "")
		}
	})
	b.Run("first request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			post(b, f.server.URL, fmt.Sprintf("order-%09d", n), "false")
			select { // nobody reads the events
			case <-f.events:
			default:
			}
		}
	})
	b.Run("replay", func(b *testing.B) {
		b.ReportAllocs()
		post(b, f.server.URL, "order-replay", "false")
		for b.Loop() {
			post(b, f.server.URL, "order-replay", "true")
			select {
			case <-f.events:
			default:
			}
		}
	})
}
