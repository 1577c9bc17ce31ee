package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gorilla/mux"
)

// TestMemo_SaysWhatTheRouterSays: a path that is remembered leads where the
// router leads, and paths that must not be remembered are not.
func TestMemo_SaysWhatTheRouterSays(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("other", `{}`)
	e.reserve("memo-key-0001", attemptA)
	ask := func(verb, path string) {
		for range 2 {
			r := httptest.NewRequest(verb, "http://onced"+path, strings.NewReader(map[string]string{"POST": `{"key":"memo-key-0001"}`}[verb]))
			r.Header.Set("Content-Type", "application/json")
			e.srv.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	ask("POST", "/v1/namespaces/other/reserve")
	for _, path := range []string{"/", "/healthz", "/v1/namespaces", "/v1/namespaces/other", "/v1/namespaces/default/records", "/v1/stats"} {
		ask("GET", path)
	}
	for _, path := range []string{
		"/v1/namespaces/default/records/memo-key-0001", "/v1/namespaces/unknown", "/v1/namespaces/BAD", "/v1/namespaces/%64efault", "/v1/namespaces/default%2frecords",
		"/nowhere", "/v1/namespaces/default/", "//healthz", "/v1/stats?x=1", "/v1/../healthz",
	} {
		ask("GET", path)
		ask("POST", path)
	}
	ask("POST", "/v1/namespaces/unknown/reserve")
	known := *e.srv.memo.known.now.Load()
	want := map[string]string{
		"/": "", "/healthz": "", "/v1/namespaces": "", "/v1/namespaces/other": "other", "/v1/stats": "",
		"/v1/namespaces/default/records": "default", "/v1/namespaces/default/reserve": "default", "/v1/namespaces/other/reserve": "other",
	}
	for path, to := range known {
		if ns, ok := want[path]; !ok || ns != to.namespace {
			t.Errorf("%s is remembered, in namespace %q", path, to.namespace)
		}
		var m mux.RouteMatch
		r := &http.Request{Method: "GET", URL: &url.URL{Path: path}}
		if !e.srv.router.Match(r, &m) || m.Handler != http.Handler(to.route) || m.Vars["ns"] != to.namespace {
			t.Errorf("%s leads to %v, %q; the router says %v, %q", path, to.route.path, to.namespace, m.Handler, m.Vars)
		}
	}
	if len(known) != len(want) {
		t.Errorf("%d paths are remembered, want %d: %v", len(known), len(want), sortedKeys(known))
	}
}

// TestShelf_IsBounded: whatever callers send, no more is kept.
func TestShelf_IsBounded(t *testing.T) {
	t.Parallel()
	var s shelf[int, int]
	for i := range 2 * shelfSize {
		s.put(i, -i)
	}
	for i := range 2 * shelfSize {
		if v, ok := s.get(i); ok != (i < shelfSize) || ok && v != -i {
			t.Fatalf("%d: %d, %v", i, v, ok)
		}
	}
}
