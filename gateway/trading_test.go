package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onced/onced/gateway"
	"github.com/onced/onced/idem"
)

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// desk is a trade worker that fills orders, and fails softly while told to.
type desk struct {
	mu    sync.Mutex
	fills []string
	soft  bool
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if d.soft {
		fmt.Fprint(w, `{"success": false, "error":"insufficient margin"}`)
		return
	}
	d.fills = append(d.fills, string(body))
	fmt.Fprintf(w, `{"success":true,"fill":%d}`, len(d.fills))
}

func (d *desk) set(soft bool) {
	d.mu.Lock()
	d.soft = soft
	d.mu.Unlock()
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.fills)
}

// newTrading is the preset trading-webhook in front of a desk, on a namespace of
// the preset gateway.
func newTrading(t *testing.T) (*front, *desk) {
	d := &desk{}
	upstream := httptest.NewServer(d)
	t.Cleanup(upstream.Close)
	rule := gateway.TradingWebhook()
	rule.Namespace = "trading"
	f := newFront(t, upstream.URL, rule)
	f.policy(t, "trading", `{"preset":"gateway"}`)
	return f, d
}

const trade = `{"exchange":"binance","symbol":"BTCUSDT","action":"buy","quantity":0.5}`

// withMember adds members to a trade.
func withMember(members string) string {
	return strings.TrimSuffix(trade, "}") + "," + members + "}"
}

// hoox, key resolution: body idempotencyKey, then the header, then the trade.
func TestHoox_KeyResolution(t *testing.T) {
	t.Parallel()
	f, d := newTrading(t)
	f.is(f.post("/", "", withMember(`"idempotencyKey":"alert-0001"`)), 200, "")
	f.is(f.post("/", "alert-0001", withMember(`"idempotencyKey":"alert-0001"`)), 409, "idempotency_duplicate")
	f.is(f.post("/", "alert-0002", trade), 200, "")
	f.is(f.post("/", "alert-0002", trade), 409, "idempotency_duplicate")
	f.is(f.post("/", "", trade), 200, "")
	f.is(f.post("/", "", trade), 409, "idempotency_duplicate")
	if d.count() != 3 {
		t.Errorf("%d fills", d.count())
	}
	for body, code := range map[string]string{
		``:                                 "idempotency_key_missing",
		`{}`:                               "idempotency_key_missing",
		`{"exchange":"binance"}`:           "invalid_request",
		withMember(`"mode":"paper"`):       "invalid_request",
		withMember(`"idempotencyKey":""`):  "idempotency_key_missing",
		withMember(`"idempotencyKey":"x"`): "idempotency_key_invalid",
		// Too long is refused, and never falls back to the fingerprint.
		withMember(`"idempotencyKey":"` + strings.Repeat("k", 257) + `"`): "idempotency_key_invalid",
		withMember(`"idempotencyKey":"` + strings.Repeat("k", 254) + `"`): "idempotency_key_invalid",
	} {
		f.is(f.post("/", "", body), 400, code)
	}
	if d.count() != 3 {
		t.Errorf("%d fills", d.count())
	}
}

// hoox: live and test modes never share a key.
func TestHoox_ModesNeverMeet(t *testing.T) {
	t.Parallel()
	f, d := newTrading(t)
	live, test := withMember(`"mode":"live"`), withMember(`"mode":"test"`)
	f.is(f.post("/", "alert-0001", live), 200, "")
	f.is(f.post("/", "alert-0001", test), 200, "")
	f.is(f.post("/", "alert-0001", live), 409, "idempotency_duplicate")
	f.is(f.post("/", "alert-0001", test), 409, "idempotency_duplicate")
	f.is(f.post("/", "", live), 200, "")
	f.is(f.post("/", "", test), 200, "")
	f.is(f.post("/", "", test), 409, "idempotency_duplicate")
	if d.count() != 4 {
		t.Errorf("%d fills", d.count())
	}
}

// hoox, phase 1: pending or committed is 409 and reaches no exchange.
func TestHoox_ReservePendingOrCommittedIs409(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		fmt.Fprint(w, `{"success":true}`)
	}))
	t.Cleanup(upstream.Close)
	f := newFront(t, upstream.URL, gateway.TradingWebhook())
	first := make(chan got)
	go func() { first <- f.post("/", "alert-0001", trade) }()
	<-arrived
	for range 5 {
		f.is(f.post("/", "alert-0001", trade), 409, "idempotency_in_flight")
	}
	close(release)
	f.is(<-first, 200, "")
	for range 5 {
		f.is(f.post("/", "alert-0001", trade), 409, "idempotency_duplicate")
	}
}

// hoox, phase 2: success:false inside a 2xx releases, and a retry may fill.
func TestHoox_SoftFailReleases(t *testing.T) {
	t.Parallel()
	f, d := newTrading(t)
	d.set(true)
	for range 3 {
		g := f.is(f.post("/", "alert-0001", trade), 200, "")
		if !bytes.Contains(g.body, []byte("insufficient margin")) || g.header.Get("Onced-Outcome") != "released" {
			t.Errorf("%v %s", g.header, g.body)
		}
	}
	d.set(false)
	f.is(f.post("/", "alert-0001", trade), 200, "")
	f.is(f.post("/", "alert-0001", trade), 409, "idempotency_duplicate")
	if d.count() != 1 {
		t.Errorf("%d fills", d.count())
	}
}

// A soft failure is found in an answer that is compressed all the same; one that
// cannot be read is in doubt.
func TestHoox_SoftFailInEncodings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     string
	}{
		"gzip, failed":    {"gzip", zipped(`{"success":false}`), "released"},
		"gzip, filled":    {"gzip", zipped(`{"success":true}`), "committed"},
		"gzip, broken":    {"gzip", []byte("no gzip"), "pending"},
		"another":         {"br", []byte("?"), "pending"},
		"no JSON":         {"", []byte("filled"), "committed"},
		"large":           {"", append([]byte(`{"success":false,"x":"`), append(bytes.Repeat([]byte("x"), 2<<20), `"}`...)...), "pending"},
		"above the cap":   {"", append([]byte(`{"x":"`), append(bytes.Repeat([]byte("x"), 300<<10), `","success":false}`...)...), "released"},
		"spelt otherwise": {"", []byte(" { \"success\" :\tfalse } "), "released"},
		"a string":        {"", []byte(`{"success":"false"}`), "committed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if e := r.Header.Get("Accept-Encoding"); e != "identity" {
					t.Errorf("Accept-Encoding %q", e)
				}
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				_, _ = w.Write(c.body)
			}))
			defer upstream.Close()
			f := newFront(t, upstream.URL, gateway.TradingWebhook())
			if g := f.is(f.post("/", "alert-0001", trade), 200, ""); !bytes.Equal(g.body, c.body) {
				t.Errorf("%d bytes, of %d", len(g.body), len(c.body))
			}
			f.want(t, "alert-0001:live", c.want)
		})
	}
}

// hoox: fail closed when the store is away, no exchange call.
func TestHoox_FailClosed503(t *testing.T) {
	t.Parallel()
	f, d := newTrading(t)
	f.set(func() { f.fault = &idem.Error{Code: idem.CodeUnavailable, Applied: idem.AppliedNo} })
	f.is(f.post("/", "alert-0001", trade), 503, "idempotency_unavailable")
	f.is(f.post("/", "", trade), 503, "idempotency_unavailable")
	if d.count() != 0 {
		t.Errorf("%d fills", d.count())
	}
}

// hoox, ttl: after it the key is free again; and section 10: an ambiguous order
// is not run again by that.
func TestHoox_TTL(t *testing.T) {
	t.Parallel()
	f, d := newTrading(t)
	f.is(f.post("/", "alert-0001", trade), 200, "")
	f.set(func() { f.ahead = 4*time.Minute + 59*time.Second })
	f.is(f.post("/", "alert-0001", trade), 409, "idempotency_duplicate")
	f.set(func() { f.ahead = 5*time.Minute + time.Second })
	f.is(f.post("/", "alert-0001", trade), 200, "")
	if d.count() != 2 {
		t.Errorf("%d fills", d.count())
	}
}

// The minute boundary (semantics.md section 9): the same trade at 11:59:59.9 and
// 12:00:00.1 fills once; a minute after the first settled it fills again.
func TestHoox_MinuteBoundary(t *testing.T) {
	t.Parallel()
	f, d := newTrading(t)
	noon := time.Now().UTC().Add(24 * time.Hour).Truncate(24 * time.Hour).Add(12 * time.Hour)
	at := func(after time.Duration) { f.set(func() { f.at = noon.Add(after) }) }
	at(-100 * time.Millisecond)
	f.is(f.post("/", "", trade), 200, "")
	at(100 * time.Millisecond)
	f.is(f.post("/", "", trade), 409, "idempotency_duplicate")
	at(29 * time.Second)
	f.is(f.post("/", "", trade), 409, "idempotency_duplicate")
	if d.count() != 1 {
		t.Fatalf("%d fills across the minute", d.count())
	}
	at(time.Minute)
	f.is(f.post("/", "", trade), 200, "")
	if d.count() != 2 {
		t.Errorf("%d fills", d.count())
	}
	// The same minute is one intent, however long ago it settled.
	at(time.Minute + 45*time.Second)
	f.is(f.post("/", "", trade), 409, "idempotency_duplicate")
	// A slow order is never placed twice: pending holds over any minute.
	at(3 * time.Minute)
	f.is(f.post("/", "", withMember(`"x":1`)), 200, "")
	at(3*time.Minute + 10*time.Second)
	f.is(f.post("/", "", withMember(`"x":2`)), 422, "idempotency_key_conflict")
}
