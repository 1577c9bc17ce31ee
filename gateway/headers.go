package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/onced/onced/idem"
)

// neverKept are the headers that are not recorded, even if a rule names them:
// what belongs to one connection (RFC 9110 section 7.6.1), to one caller, or to
// one moment, and what a replay makes anew.
var neverKept = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Proxy-Authentication-Info": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Set-Cookie": true, "Set-Cookie2": true, "Authorization": true, "Www-Authenticate": true,
	"Date": true, "Server": true, "Content-Length": true,
	"Idempotent-Replayed": true, "Onced-Outcome": true, "Onced-Response-Omitted": true,
}

// keptHeaders lists the headers of an answer that are recorded, by name, the
// lines of one name in their order. names, if not nil, are the only ones.
func keptHeaders(h http.Header, names []string) [][2]string {
	perConnection := connectionTokens(h)
	list := make([]string, 0, len(h))
	for name := range h {
		switch {
		case neverKept[name], strings.HasPrefix(name, http.TrailerPrefix):
		case slices.Contains(perConnection, name):
		case names != nil && !slices.Contains(names, name):
		default:
			list = append(list, name)
		}
	}
	slices.Sort(list)
	kept := [][2]string{}
	for _, name := range list {
		for _, v := range h[name] {
			kept = append(kept, [2]string{name, v})
		}
	}
	return kept
}

// connectionTokens gives the names in a Connection header, in their canonical
// form.
func connectionTokens(h http.Header) []string {
	var tokens []string
	for _, line := range h["Connection"] {
		for t := range strings.SplitSeq(line, ",") {
			if t = strings.Trim(t, " \t"); t != "" {
				tokens = append(tokens, http.CanonicalHeaderKey(t))
			}
		}
	}
	return tokens
}

// needed are the headers that a request must not have taken out on its way: a
// proxy removes what Connection names, and the upstream would then see another
// request than the one that was digested, or one without its key.
var needed = map[string]bool{
	"Authorization": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Cookie": true,
	"Host": true, "Idempotent-Replayed": true, "Transfer-Encoding": true, "X-Correlation-Id": true,
}

// overrides are headers by which some upstreams take one method for another.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// refuseTricks refuses what would make the upstream see another request than
// the guard did. It is asked for unguarded requests too.
func (r *Rule) refuseTricks(q *http.Request) *idem.Error {
	trick := func(detail string) *idem.Error {
		return &idem.Error{Code: idem.CodeInvalidRequest, Detail: detail}
	}
	var keys []string
	for _, k := range r.Keys {
		if k.Kind == FromHeader {
			keys = append(keys, k.Name)
		}
	}
	for _, t := range connectionTokens(q.Header) {
		if needed[t] || slices.Contains(keys, t) || t == "Idempotency-Key" || strings.HasPrefix(t, "Onced-") {
			return trick("the Connection header names " + t + ", which must reach the upstream")
		}
	}
	for name := range q.Header {
		if !strings.Contains(name, "_") {
			continue
		}
		// Gateways to CGI and WSGI make one variable of both spellings.
		if folded := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")); slices.Contains(keys, folded) || folded == "Idempotency-Key" {
			return &idem.Error{Code: idem.CodeKeyInvalid, Detail: "the header " + name + " looks like " + folded + ": send exactly that"}
		}
	}
	if !r.guards(q.Method) {
		for _, name := range overrides {
			for _, method := range q.Header[name] {
				if r.guards(strings.TrimSpace(method)) {
					return trick("the header " + name + " would make a guarded method of an unguarded one")
				}
			}
		}
	}
	return nil
}
