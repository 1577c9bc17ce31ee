package gateway

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"

	"github.com/onced/onced/idem"
)

// ruleKey is the key of the rule of a request in its context.
type ruleKey struct{}

func ruleOf(r *http.Request) *Rule {
	rule, _ := r.Context().Value(ruleKey{}).(*Rule)
	return rule
}

// Proxy guards the upstreams of the rules: each guarded request is sent to its
// rule's Upstream once. Methods that a rule does not guard pass through; paths
// that no rule is for are 404, so that nothing slips by in another spelling.
//
// What is known decides: when surely nothing was sent (refused, no such name, no
// TLS, a stale connection) the key is given back and the answer is 502 with the
// code upstream_unreachable. A time-out (504), a reset and a cut or malformed
// answer (502) after something was sent leave the key as it is, with the code
// idempotency_uncertain, and the upstream is not asked again.
func (g *Guard) Proxy() http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: g.send,
		Rewrite:   rewrite,
		// Whoever is to read along gets it as it comes (recorder holds back what
		// it may); the default for answers without a length alone.
		ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if f := flightOf(r.Context()); f != nil {
				f.failed = err
				return
			}
			status := http.StatusBadGateway
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				status = http.StatusGatewayTimeout
			}
			if r.Context().Err() == nil {
				g.log.Warn("the upstream did not answer", "rule", ruleOf(r).Name, "cause", err)
			}
			writeProblem(w, status, &idem.Error{Code: CodeUpstreamFailed, Detail: "the upstream did not answer"}, correlationOf(r))
		},
	}
	nowhere := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, 0, &idem.Error{Code: idem.CodeRouteNotFound, Detail: "the gateway has no route for this path"}, correlationOf(r))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, proxy, nowhere, false)
	})
}

// rewrite addresses a request to the upstream of its rule.
func rewrite(p *httputil.ProxyRequest) {
	rule := ruleOf(p.In)
	p.SetURL(rule.Upstream)
	if rule.PreserveHost {
		p.Out.Host = p.In.Host
	}
	// The query as it was digested, and not as net/url would have it.
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	for name := range p.Out.Header {
		if len(name) > len("Onced-") && name[:len("Onced-")] == "Onced-" {
			delete(p.Out.Header, name)
		}
	}
}
