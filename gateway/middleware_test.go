package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/onced/onced/gateway"
)

// The middleware is one of gorilla/mux, and route variables are there.
func TestMiddleware_Mux(t *testing.T) {
	t.Parallel()
	f := frontOf(t, gateway.Rule{})
	runs := 0
	router := mux.NewRouter()
	router.Use(f.guard.Middleware)
	router.HandleFunc("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		runs++
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != `{"a":1}` || r.ContentLength != 7 {
			t.Errorf("body %q, %d, %v", b, r.ContentLength, err)
		}
		fmt.Fprintf(w, "<p>order %s, run %d", mux.Vars(r)["id"], runs)
	})
	f.serve(router)
	first := f.is(f.post("/orders/7", "order-0001", `{"a":1}`), 200, "")
	again := f.is(f.post("/orders/7", "order-0001", `{"a":1}`), 200, "")
	f.same(first, again)
	if first.header.Get("Content-Type") != "text/html; charset=utf-8" || again.header.Get("Content-Type") != first.header.Get("Content-Type") {
		t.Errorf("%v, %v", first.header, again.header)
	}
}

// A panic is in doubt, and goes on to the server; so is a handler that ends its
// goroutine.
func TestMiddleware_Panics(t *testing.T) {
	t.Parallel()
	f := newWrapped(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half")
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/goexit":
			runtime.Goexit()
		}
		panic("boom")
	}, gateway.Rule{})
	f.server.Config.ErrorLog = nil
	for i, path := range []string{"/abort", "/goexit", "/abort"} {
		key := fmt.Sprintf("order-%04d", i)
		if g := f.post(path, key, ""); g.err == nil {
			t.Errorf("%s: answered %d %q", path, g.status, g.body)
		}
		f.is(f.post(path, key, ""), 409, "idempotency_in_flight")
	}
}

// Handlers that say nothing, say it twice, or say less than they promised.
func TestMiddleware_Handlers(t *testing.T) {
	t.Parallel()
	f := newWrapped(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
		case "/twice":
			w.WriteHeader(201)
			w.WriteHeader(500)
		case "/short":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "123")
		case "/hints":
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.WriteHeader(202)
		}
	}, gateway.Rule{})
	f.is(f.post("/silent", "order-0001", ""), 200, "")
	f.is(f.post("/silent", "order-0001", ""), 200, "")
	f.is(f.post("/twice", "order-0002", ""), 201, "")
	f.is(f.post("/twice", "order-0002", ""), 201, "")
	f.is(f.post("/short", "order-0003", ""), 502, "idempotency_uncertain")
	f.want(t, "order-0003", "pending")
	f.is(f.post("/hints", "order-0004", ""), 202, "")
	f.want(t, "order-0004", "committed")
}

// A caller that hung up while it waited has nothing run for it.
func TestMiddleware_HangUpBeforeTheRun(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	f := newWrapped(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		w.WriteHeader(429) // gives the key back, and would let a waiter run
	}, gateway.Rule{OnDuplicate: gateway.Wait})
	first := make(chan got)
	go func() { first <- f.post("/", "order-0001", "") }()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", f.server.URL+"/", nil)
	req.Header.Set("Idempotency-Key", "order-0001")
	second := make(chan got)
	go func() { second <- f.do(req) }()
	// The waiter is there when the cluster is asked a second time.
	eventually(t, "the duplicate waits", func() bool { return f.index() >= 2 })
	cancel()
	<-second
	<-f.events // the guard has noticed
	close(release)
	f.is(<-first, 429, "")
	// What the one that is gone may have claimed unseen is given back.
	eventually(t, "the key is free", func() bool { return f.post("/", "order-0001", "").status == 429 })
	if n := len(arrived); n > 1 {
		t.Errorf("%d more runs: a caller that was gone had one", n)
	}
}

func (f *front) index() uint64 {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return f.machine.Index()
}

// The context of a run has the values of the request and not its end.
func TestMiddleware_Context(t *testing.T) {
	t.Parallel()
	type name struct{}
	f := frontOf(t, gateway.Rule{})
	h := f.guard.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, has := r.Context().Deadline(); has || r.Context().Value(name{}) != "v" || r.Context().Err() != nil {
			t.Errorf("context: deadline %v, value %v, %v", has, r.Context().Value(name{}), r.Context().Err())
		}
		w.WriteHeader(201)
	}))
	f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), name{}, "v"), 10*time.Second)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	f.is(f.post("/", "order-0001", ""), 201, "")
}

// Goroutines after 500 concurrent requests are as many as before. It runs alone,
// so that nothing else is counted; e2e has the same for a process, with memory.
func TestFlatUnderLoad(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(strings.Repeat("x", 1000)))
	}))
	defer upstream.Close()
	f := newFront(t, upstream.URL, gateway.Rule{})
	const callers = 500
	round := func(n int) {
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				g := f.post("/x", fmt.Sprintf("order-%d-%05d", n, c), `{"a":1}`)
				if g.status != 200 && g.status != 503 {
					t.Errorf("answered %d %s (%v)", g.status, g.body, g.err)
				}
			})
		}
		wg.Wait()
	}
	round(0)
	round(1)
	before := runtime.NumGoroutine()
	for n := range 5 {
		round(2 + n)
	}
	// Connections that are kept are two goroutines each, on both sides, and how
	// many are kept varies; what a request leaves behind would be a goroutine for
	// each of the 2,500.
	eventually(t, "goroutines come to rest", func() bool { return runtime.NumGoroutine() <= before+2*callers })
	t.Logf("goroutines after 1,000 requests: %d, after 3,500: %d", before, runtime.NumGoroutine())
}

// Rules that cannot work are refused with their field, and the old ones stay.
func TestRules(t *testing.T) {
	t.Parallel()
	f := frontOf(t, gateway.Rule{})
	f.serve(f.guard.Middleware(http.NotFoundHandler()))
	for field, rule := range map[string]gateway.Rule{
		"path":             {Path: "orders"},
		"path ":            {Path: "/a/*/b"},
		"methods":          {Methods: []string{"post"}},
		"keys":             {Keys: []gateway.KeySource{}},
		"keys ":            {Keys: []gateway.KeySource{{Kind: "cookie", Name: "x"}}},
		"mode":             {Mode: "mode"},
		"operation":        {Operation: strings.Repeat("x", 129)},
		"namespace":        {Namespace: "No"},
		"upstream-timeout": {Timeout: -1},
		"wait":             {Wait: -1},
		"headers":          {Headers: []string{"Set-Cookie"}},
		"upstream":         {Upstream: &url.URL{Scheme: "ftp", Host: "x"}},
	} {
		err := f.guard.SetRules([]gateway.Rule{{Path: "/first"}, rule})
		var of *gateway.RuleError
		if !errors.As(err, &of) || of.Index != 1 || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := f.guard.SetRules([]gateway.Rule{{}, {}}); err == nil {
		t.Error("two rules for one path")
	}
	f.is(f.post("/x", "", ""), 400, "idempotency_key_missing")
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "cookie:x", "header:", "header:a b", "body:x", "body:/~2", "fingerprint:order"} {
		if err := new(gateway.KeySource).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("key source %q is taken", bad)
		}
	}
	for _, bad := range []string{"", "409", "409=maybe", "1xx=commit", "600=fail", "=fail", "abc=fail"} {
		if err := new(gateway.StatusRule).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("status rule %q is taken", bad)
		}
	}
	for _, bad := range []string{"", "success=false", "/success"} {
		if err := new(gateway.Match).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("match %q is taken", bad)
		}
	}
}
