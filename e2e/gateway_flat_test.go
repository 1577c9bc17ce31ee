package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A gateway process at 500 concurrent requests: memory and goroutines stay what
// they are. E2E_FLAT=5m makes it longer.
func TestGatewayFlat(t *testing.T) {
	f := newFleet(t)
	long, err := time.ParseDuration(os.Getenv("E2E_FLAT"))
	if err != nil {
		long = 12 * time.Second
	}
	f.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 600
	figure := func(name string) float64 {
		res, err := f.http.Get("http://" + address(f.base+1) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), name+" "); ok {
				n, _ := strconv.ParseFloat(v, 64)
				return n
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	var next, ok, refused, bad atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := next.Add(1)
				req, _ := http.NewRequest("POST", "http://"+address(f.base)+"/x", strings.NewReader(webhookBody(fmt.Sprintf("flat-%08d", n/2), "ok")))
				req.GetBody = nil
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", fmt.Sprintf("flat-%08d", n/2)) // each twice
				res, err := f.http.Do(req)
				switch {
				case err != nil:
					bad.Add(1)
				case res.StatusCode == 200:
					ok.Add(1)
				case res.StatusCode == 409 || res.StatusCode == 503:
					refused.Add(1)
				default:
					bad.Add(1)
				}
				if err == nil {
					res.Body.Close()
				}
			}
		})
	}
	type sample struct{ goroutines, megabytes float64 }
	var samples []sample
	const parts = 6
	for range parts {
		pauseFor(long / parts)
		samples = append(samples, sample{figure("go_goroutines"), figure("process_resident_memory_bytes") / 1e6})
	}
	close(stop)
	wg.Wait()
	f.http.CloseIdleConnections()
	eventually(t, "the goroutines end", func() bool { return figure("go_goroutines") < 1500 })
	t.Logf("%d answers, %d told to come again, %d without an answer; goroutines and MB resident each %s: %.0f; at rest %.0f goroutines",
		ok.Load(), refused.Load(), bad.Load(), long/parts, samples, figure("go_goroutines"))
	first, last := samples[1], samples[parts-1]
	if last.goroutines > 1.3*first.goroutines+200 || last.megabytes > 1.5*first.megabytes+20 {
		t.Errorf("grows: %.0f", samples)
	}
	if bad.Load() > 0 || ok.Load() == 0 {
		t.Errorf("%d bad answers", bad.Load())
	}
}
