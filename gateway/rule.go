package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onced/onced/idem"
)

// Rule says which requests are guarded, by what key, and what an answer means.
// The zero Rule guards POST, PUT, PATCH and DELETE of every path by the
// Idempotency-Key header.
type Rule struct {
	Name string // in logs and metrics; the path without it
	// Path is the path that the rule is for: "/orders" for itself alone,
	// "/orders/*" for what is below it, "" or "/*" for all.
	Path    string
	Methods []string    // guarded ones; others pass through. nil: POST, PUT, PATCH, DELETE
	Keys    []KeySource // in their order; nil: the Idempotency-Key header
	// Mode is the JSON pointer to "live" or "test", which becomes the last part
	// of a key; "": keys are taken as they are.
	Mode      string
	Operation string // the write's stable name; "": method and path
	Namespace string // "": that of the Guard's client

	Statuses       []StatusRule // beyond the defaults
	SoftFail       []Match      // any of them in a 2xx: it did not happen
	SoftFailAction Action       // 0: Release

	OnDuplicate Duplicates
	// Wait is how long a duplicate waits with OnDuplicate Wait; 0: Timeout + 10 s.
	Wait time.Duration
	// Timeout is how long the upstream may take to answer, and may be silent
	// while it does; the lease is 10 s longer. 0: 30 s. In a middleware it sets
	// the lease alone: the handler has its own time.
	Timeout time.Duration

	StatusOnly bool     // keep no bodies
	Headers    []string // kept with the answer; nil: all end-to-end ones but a few (keptHeaders)
	// MaxBody bounds the body that is kept. 0: what the namespace takes.
	MaxBody        int64
	MaxRequestBody int64 // 0: 1 MiB

	Upstream     *url.URL // for Guard.Proxy
	PreserveHost bool     // send the Host header of the caller to the upstream
}

// Duplicates is what a duplicate is told.
type Duplicates int

// What a duplicate of a settled request is told.
const (
	Replay Duplicates = iota // the recorded answer; 409 while the first is at work
	Reject                   // 409
	Wait                     // the recorded answer, once it is there
)

var duplicateNames = [...]string{Replay: "replay", Reject: "reject", Wait: "wait"}

// String gives the name of d as configuration has it.
func (d Duplicates) String() string { return duplicateNames[d] }

// UnmarshalText reads replay, reject or wait.
func (d *Duplicates) UnmarshalText(b []byte) error {
	for i, name := range duplicateNames {
		if name == string(b) {
			*d = Duplicates(i)
			return nil
		}
	}
	return fmt.Errorf("%q: use replay, reject or wait", b)
}

// The defaults of a Rule.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultMaxRequestBody = 1 << 20
	// leaseMargin is what a lease is longer than the upstream may take.
	leaseMargin = 10 * time.Second
	// claimTimeout bounds the reserve; then 503.
	claimTimeout = 3 * time.Second
	// maxBody is the largest body that any namespace keeps.
	maxBody = 256 << 10
)

// complete checks a rule and fills in its defaults; the error names the field.
func (r Rule) complete() (Rule, error) {
	if r.Path == "" {
		r.Path = "/*"
	}
	if !strings.HasPrefix(r.Path, "/") || strings.ContainsAny(strings.TrimSuffix(r.Path, "/*"), "*%?#\\") || !clean(strings.TrimSuffix(r.Path, "*")) {
		return r, fmt.Errorf("path %q: use a path such as /orders, or /orders/* for what is below it", r.Path)
	}
	if r.Name == "" {
		r.Name = r.Path
	}
	if r.Methods == nil {
		r.Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	}
	for _, m := range r.Methods {
		if !isToken(m) || m != strings.ToUpper(m) || m == http.MethodConnect || m == http.MethodTrace {
			return r, fmt.Errorf("methods: %q cannot be guarded: use methods such as POST, PUT, PATCH, DELETE", m)
		}
	}
	if r.Keys == nil {
		r.Keys = []KeySource{{FromHeader, "Idempotency-Key"}}
	}
	if len(r.Keys) == 0 {
		return r, fmt.Errorf("keys: none is given")
	}
	for _, k := range r.Keys {
		if err := k.validate(); err != nil {
			return r, fmt.Errorf("keys: %w", err)
		}
	}
	if r.Mode != "" {
		if err := checkPointer(r.Mode); err != nil {
			return r, fmt.Errorf("mode: %w", err)
		}
	}
	if err := idem.CheckOperation(r.Operation); err != nil {
		return r, err
	}
	if r.Namespace != "" {
		if err := idem.CheckNamespace(r.Namespace); err != nil {
			return r, err
		}
	}
	if r.SoftFailAction == 0 {
		r.SoftFailAction = Release
	}
	for name, d := range map[string]time.Duration{"wait": r.Wait, "upstream-timeout": r.Timeout} {
		if d < 0 {
			return r, fmt.Errorf("%s: %s is below zero", name, d)
		}
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	if r.Wait == 0 {
		r.Wait = r.Timeout + leaseMargin
	}
	if r.MaxRequestBody == 0 {
		r.MaxRequestBody = DefaultMaxRequestBody
	}
	if r.MaxBody < 0 || r.MaxRequestBody < 0 {
		return r, fmt.Errorf("max-body and max-request-body cannot be below zero")
	}
	r.Headers = slices.Clone(r.Headers)
	for i, h := range r.Headers {
		if !isToken(h) {
			return r, fmt.Errorf("headers: %q is no header name", h)
		}
		if r.Headers[i] = http.CanonicalHeaderKey(h); neverKept[r.Headers[i]] {
			return r, fmt.Errorf("headers: %s is never kept: it belongs to one caller or one connection", r.Headers[i])
		}
	}
	if u := r.Upstream; u != nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		return r, fmt.Errorf("upstream %q: use a base URL such as http://127.0.0.1:8080", u.Redacted())
	}
	return r, nil
}

// guards tells whether requests with this method are guarded. Upstreams differ
// in what they make of "post", so it counts as POST.
func (r *Rule) guards(method string) bool {
	for _, m := range r.Methods {
		if strings.EqualFold(m, method) {
			return true
		}
	}
	return false
}

// keptOf gives how many bytes of a body are kept, in a namespace that takes
// responses of limit bytes.
func (r *Rule) keptOf(limit int64) int64 {
	if r.StatusOnly {
		return 0
	}
	if r.MaxBody > 0 {
		limit = min(limit, r.MaxBody)
	}
	return min(limit, maxBody)
}

// matches tells whether the rule is for a path.
func (r *Rule) matches(path string) bool {
	below, prefix := strings.CutSuffix(r.Path, "*")
	return path == r.Path || prefix && strings.HasPrefix(path, below)
}

// all tells whether the rule is for every path.
func (r *Rule) all() bool { return r.Path == "/*" }

// clean tells whether a path is its own only spelling: what is behind us cannot
// read it as another one.
func clean(escaped string) bool {
	lower := strings.ToLower(escaped)
	for _, bad := range []string{"//", "/./", "/../", "\\", "%2f", "%5c", "%2e", "%00", ";"} {
		if strings.Contains(lower, bad) {
			return false
		}
	}
	return !strings.HasSuffix(lower, "/.") && !strings.HasSuffix(lower, "/..")
}

// TradingWebhook is the preset trading-webhook: the flow of a trading gateway.
// The key comes from idempotencyKey in the body, the Idempotency-Key header, or
// else the fingerprint of the trade; the mode is part of the key, so live and
// test never meet; a duplicate is told 409; "success": false in a 2xx gives the
// key back. It goes with a namespace of the preset gateway.
func TradingWebhook() Rule {
	return Rule{
		Keys: []KeySource{{FromBody, "/idempotencyKey"}, {FromHeader, "Idempotency-Key"}, {FromFingerprint, "trade"}},
		Mode: "/mode", SoftFail: []Match{{"/success", "false"}}, OnDuplicate: Reject,
	}
}
