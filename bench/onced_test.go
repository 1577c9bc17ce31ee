package bench

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// runShort runs a workload for a moment and gives its figures.
func runShort(t *testing.T, o *Onced, workload string, clients int) *Result {
	t.Helper()
	if o.NeedsPrepared(workload) {
		if err := o.Prepare(t.Context(), 120); err != nil {
			t.Fatal(err)
		}
	}
	start, err := o.Start(workload)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Load{Clients: clients, For: 100 * time.Millisecond, Start: start}.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every workload against the edge and the rules of the product: what it counts
// is what the server decided.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		o        *Onced
		workload string
		granted  bool // at least one key a call of the workload
	}{
		{"lifecycle", &Onced{}, "lifecycle", true},
		{"large responses", &Onced{ValueSize: 100_000}, "lifecycle", true},
		{"reserve", &Onced{}, "reserve", true},
		{"replay", &Onced{}, "replay", false},
		{"large replay", &Onced{ValueSize: 40_000}, "replay", false},
		{"storm", &Onced{}, "storm", false},
		{"batch", &Onced{}, "batch", true},
		{"batch of one", &Onced{BatchSize: 1}, "batch", true},
		{"batch of many", &Onced{BatchSize: 1000}, "batch", true},
		{"batch of duplicates", &Onced{Replay: true}, "batch", false},
		{"mixed", &Onced{}, "mixed", false},
		{"mixed without duplicates", &Onced{Mix: Mix{Fresh: 1, Storm: 1}}, "mixed", false},
		{"all endpoints", &Onced{Spread: SpreadAll}, "lifecycle", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var grants, commits, replays atomic.Int64
			e := startNode(t, counted(&grants, &commits, &replays))
			c.o.Endpoints = []string{e, e + "/"}
			c.o.Namespace = "default"
			r := runShort(t, c.o, c.workload, 4)
			if r.Operations == 0 || len(r.Errors) != 0 || c.o.DoubleGrants() != 0 {
				t.Fatalf("%+v", r)
			}
			switch {
			case c.workload == "reserve":
				if grants.Load() != r.Operations || commits.Load() != 0 {
					t.Errorf("%d operations, %d grants", r.Operations, grants.Load())
				}
			case c.granted:
				if grants.Load() != r.Operations || commits.Load() != r.Operations {
					t.Errorf("%d operations, %d grants, %d commits", r.Operations, grants.Load(), commits.Load())
				}
			case c.workload == "replay" || c.o.Replay:
				if replays.Load() != r.Operations || grants.Load() != 120 || commits.Load() != 120 {
					t.Errorf("%d operations, %d replays, %d grants, %d commits", r.Operations, replays.Load(), grants.Load(), commits.Load())
				}
			case c.workload == "storm":
				s := c.o.Storm()
				if s.Grants != grants.Load() || s.Grants < s.Keys-1 || s.Grants == 0 {
					t.Errorf("%+v, %d grants", s, grants.Load())
				}
			}
		})
	}
}

// counted counts what a node answers, before the answer is out.
func counted(grants, commits, replays *atomic.Int64) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			body := rec.Body.String()
			grants.Add(int64(strings.Count(body, `"outcome":"reserved"`)))
			commits.Add(int64(strings.Count(body, `"outcome":"committed"`)))
			replays.Add(int64(strings.Count(body, `"outcome":"replayed"`)))
			maps.Copy(w.Header(), rec.Header())
			w.WriteHeader(rec.Code)
			_, _ = io.WriteString(w, body)
		})
	}
}

// A node that grants a key twice is what the storm is there to find.
func TestStormFindsDoubleGrants(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	liar := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/reserve") && calls.Add(1)%50 == 0 {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"outcome":"reserved","token":"1234567","attempt":1}`)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	o := &Onced{Endpoints: []string{startNode(t, liar)}}
	r := runShort(t, o, "storm", 8)
	if o.DoubleGrants() == 0 || o.Storm().DoubleGrants != o.DoubleGrants() || r.Errors[codeGrantedAgain] == 0 {
		t.Errorf("%d double grants, %+v", o.DoubleGrants(), r)
	}
	honest := &Onced{Endpoints: []string{startNode(t, nil)}}
	if runShort(t, honest, "storm", 8); honest.DoubleGrants() != 0 {
		t.Errorf("%d double grants of a node that gave none", honest.DoubleGrants())
	}
}

// A committed key that is granted again, or replayed with another outcome, is
// no operation.
func TestReplaysAreHeldAgainstWhatWasCommitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, body string
		status     int
		replay     bool
		code       string
		doubles    bool
	}{
		{"/reserve", `{"outcome":"reserved","token":"1"}`, 201, false, codeGrantedAgain, true},
		{"/reserve", `{"outcome":"replayed","record":{"response":"y"}}`, 200, false, codeOtherResponse, false},
		{"/batch", `{"results":[{"status":201,"body":{"outcome":"reserved","token":"1"}}]}`, 200, true, codeGrantedAgain, true},
		{"/batch", `{"results":[{"status":200,"body":{"outcome":"replayed","record":{"response":"y"}}}]}`, 200, true, codeOtherResponse, false},
		{"/batch", `{"results":[]}`, 200, true, codeBadAnswer, false},
	} {
		var lying atomic.Bool
		e := startNode(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !lying.Load() || !strings.HasSuffix(r.URL.Path, c.path) {
					h.ServeHTTP(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
		})
		o := &Onced{Endpoints: []string{e}, Replay: c.replay, BatchSize: 1}
		if err := o.Prepare(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		lying.Store(true)
		workload := "replay"
		if c.replay {
			workload = "batch"
		}
		start, err := o.Start(workload)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Load{Clients: 1, For: 20 * time.Millisecond, Start: start}.Run(t.Context(), nil)
		if err != nil || r.Operations != 0 || r.Errors[c.code] == 0 || len(r.Errors) != 1 || (o.DoubleGrants() > 0) != c.doubles {
			t.Errorf("%s %s: %+v, %v, %d double grants", c.path, c.body, r, err, o.DoubleGrants())
		}
	}
}

// A batch of which a part fails counts as what was done, and as an error.
func TestPartOfABatch(t *testing.T) {
	t.Parallel()
	e := canned(t, 200, `{"results":[{"status":200,"body":{"outcome":"replayed","record":{"status":"committed","response":"xxxxxxxx"}}},`+
		`{"status":409,"body":{"type":"t","status":409,"code":"idempotency_in_flight","record":{"status":"pending"}}}]}`)
	o := &Onced{Endpoints: []string{e}, Replay: true, BatchSize: 2, ValueSize: 10, prepared: make([]benchKey, 2)}
	start, err := o.Start("batch")
	if err != nil {
		t.Fatal(err)
	}
	op, err := start(0)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := op(t.Context()); n != 1 || err != errInFlight {
		t.Error(n, err)
	}
}

func TestKeysAreNeverTheSame(t *testing.T) {
	t.Parallel()
	seen := map[benchKey]bool{}
	spaces := []*keySpace{newKeySpace(), newKeySpace()}
	for _, s := range spaces {
		for client := range 10 {
			for n := range uint64(1000) {
				var k benchKey
				s.put(&k, client, n)
				if seen[k] {
					t.Fatalf("%s twice", k)
				}
				seen[k] = true
			}
		}
	}
}

func TestOncedRefuses(t *testing.T) {
	t.Parallel()
	e := []string{"http://127.0.0.1:1"}
	for _, c := range []struct {
		o        *Onced
		workload string
	}{
		{&Onced{}, "lifecycle"},
		{&Onced{Endpoints: e}, "life"},
		{&Onced{Endpoints: e}, "replay"}, // nothing was prepared
		{&Onced{Endpoints: e, ValueSize: 1}, "lifecycle"},
		{&Onced{Endpoints: e, BatchSize: 1001}, "batch"},
		{&Onced{Endpoints: e, Spread: "some"}, "lifecycle"},
		{&Onced{Endpoints: e, Mix: Mix{Fresh: -1}}, "mixed"},
	} {
		if _, err := c.o.Start(c.workload); err == nil {
			t.Errorf("%v: %s started", c.o.Endpoints, c.workload)
		}
	}
	if _, err := Lifecycle([]string{"https://a"}, "", 0)(0); err == nil {
		t.Error("https was taken")
	}
	if _, err := Lifecycle(nil, "", 0)(0); err == nil {
		t.Error("no endpoint was taken")
	}
}
