package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/onced/onced/idem"
)

// endpoint answers a call. A nil reply says that it has written the answer.
type endpoint func(c *call) *reply

// method is one verb of a route.
type method struct {
	verb    string
	name    string   // metrics label and OpenAPI operationId
	query   []string // parameters it takes; any other is refused
	lenient bool     // takes any query: probes and scrapers add their own
	serve   endpoint
}

// route is one path with its methods. One mux route a path, without mux's
// method matchers: who answers 405, and with which Allow, is decided here.
type route struct {
	path    string
	methods []method
}

// ServeHTTP is there for mux alone: Server dispatches by Match, which makes no
// redirect and no request copy.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// table is every route, those of the hot path first.
func (s *Server) table() []*route {
	const ns = "/v1/namespaces/{ns}"
	post := func(name string, e endpoint) []method { return []method{{verb: http.MethodPost, name: name, serve: e}} }
	get := func(name string, e endpoint, query ...string) method {
		return method{verb: http.MethodGet, name: name, serve: e, query: query}
	}
	single := func(op string) []method {
		decode := decoders[op]
		return post(op, func(c *call) *reply { return c.serveSingle(op, decode) })
	}
	return []*route{
		{ns + "/reserve", single("reserve")},
		{ns + "/commit", single("commit")},
		{ns + "/records/{key}", []method{get("record_get", (*call).serveRecord, "consistency", "minIndex")}},
		{ns + "/batch", post("batch", (*call).serveBatch)},
		{ns + "/fail", single("fail")},
		{ns + "/release", single("release")},
		{ns + "/extend", single("extend")},
		{ns + "/cancel", single("cancel")},
		{ns + "/resolve", single("resolve")},
		{ns + "/records", []method{get("record_list", (*call).serveRecords, "status", "prefix", "limit", "cursor", "consistency", "minIndex")}},
		{"/v1/namespaces", []method{get("namespace_list", (*call).serveNamespaces, "consistency", "minIndex")}},
		{ns, []method{
			get("namespace_get", (*call).serveNamespace, "consistency", "minIndex"),
			{verb: http.MethodPut, name: "namespace_put", serve: (*call).putNamespace},
			{verb: http.MethodDelete, name: "namespace_delete", query: []string{"force"}, serve: (*call).deleteNamespace},
		}},
		{"/v1/sweep", post("sweep", (*call).serveSweep)},
		{"/v1/audit", []method{get("audit", (*call).serveAudit, "cursor", "limit", "consistency", "minIndex")}},
		{"/v1/stats", []method{get("stats", (*call).serveStats)}},
		{"/v1/cluster", []method{get("cluster", (*call).serveCluster)}},
		{"/healthz", []method{{verb: http.MethodGet, name: "healthz", lenient: true, serve: (*call).serveHealth}}},
		{"/readyz", []method{get("readyz", (*call).serveReady, "verbose")}},
		{"/metrics", []method{{verb: http.MethodGet, name: "metrics", lenient: true, serve: (*call).serveMetrics}}},
		{"/openapi.json", []method{get("openapi", (*call).serveOpenAPI)}},
		{"/", []method{get("root", (*call).serveRoot)}},
	}
}

// newRouter matches on the path as it was sent: no cleaning and no decoding
// before the match, hence never a redirect (B62, B63).
func newRouter(routes []*route) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, rt := range routes {
		router.Path(rt.path).Handler(rt)
	}
	return router
}

// dispatch finds the endpoint and runs it, once everything that is common to
// all is checked.
func (s *Server) dispatch(c *call) *reply {
	if c.r.Method == http.MethodOptions && c.r.URL.Path == "*" {
		c.operation = "options"
		return &reply{status: http.StatusNoContent, outcome: "options", allow: "GET, HEAD, POST, PUT, DELETE, OPTIONS"}
	}
	known, vars := s.memo.find(c.r.URL), map[string]string(nil)
	rt := known.route
	if rt == nil {
		var m mux.RouteMatch
		if !s.router.Match(c.r, &m) {
			return c.refuse(&idem.Error{Code: idem.CodeRouteNotFound})
		}
		rt, vars = m.Handler.(*route), m.Vars
	}
	verb := c.r.Method
	if verb == http.MethodHead {
		verb = http.MethodGet
	}
	i := slices.IndexFunc(rt.methods, func(m method) bool { return m.verb == verb })
	if i < 0 {
		if verb == http.MethodOptions {
			c.operation = "options"
			return &reply{status: http.StatusNoContent, outcome: "options", allow: rt.allow()}
		}
		rep := c.refuse(&idem.Error{Code: idem.CodeMethodNotAllowed})
		rep.allow = rt.allow()
		return rep
	}
	c.operation = rt.methods[i].name
	if known.route != nil {
		c.namespace = known.namespace
	} else if err := c.takeVariables(vars); err != nil {
		return c.refuse(err)
	} else if c.key == "" && (c.namespace == "" || s.metrics.namespaces.label(c.namespace) != "") {
		s.memo.add(c.r.URL, matched{rt, c.namespace})
	}
	if err := c.takeQuery(&rt.methods[i]); err != nil {
		return c.refuse(err)
	}
	if err := c.takeTimeout(); err != nil {
		return c.refuse(err)
	}
	return rt.methods[i].serve(c)
}

// allow lists the methods of rt for the Allow header.
func (rt *route) allow() string {
	var verbs []string
	for _, m := range rt.methods {
		verbs = append(verbs, m.verb)
		if m.verb == http.MethodGet {
			verbs = append(verbs, http.MethodHead)
		}
	}
	return strings.Join(append(verbs, http.MethodOptions), ", ")
}

// takeVariables unescapes each path variable exactly once and holds it against
// its grammar: one key has one spelling, and no spelling reaches another
// namespace.
func (c *call) takeVariables(vars map[string]string) *idem.Error {
	for name, raw := range vars {
		v, err := url.PathUnescape(raw)
		if err != nil {
			return &idem.Error{Code: idem.CodeInvalidRequest, Detail: "path: " + name + " is not percent-encoded UTF-8"}
		}
		var bad *idem.Error
		switch name {
		case "ns":
			bad = idem.CheckNamespace(v)
		case "key":
			bad = idem.CheckKey(v)
		}
		if bad != nil {
			return bad
		}
		vars[name] = v
	}
	c.namespace, c.key = vars["ns"], vars["key"]
	return nil
}

// takeQuery reads the query strictly: a parameter that is not taken, or given
// twice, is refused rather than ignored.
func (c *call) takeQuery(m *method) *idem.Error {
	if c.r.URL.RawQuery == "" || m.lenient {
		return nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return &idem.Error{Code: idem.CodeInvalidRequest, Detail: "query: malformed"}
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	c.query = make(map[string]string, len(values))
	for _, name := range names {
		if !slices.Contains(m.query, name) {
			return &idem.Error{Code: idem.CodeInvalidRequest, Detail: "query: unknown parameter " + quoted(name)}
		}
		if len(values[name]) > 1 {
			return &idem.Error{Code: idem.CodeInvalidRequest, Detail: "query: " + name + " is given more than once"}
		}
		c.query[name] = values[name][0]
	}
	return nil
}
