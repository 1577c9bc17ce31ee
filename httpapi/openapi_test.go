package httpapi

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gorilla/mux"

	"github.com/onced/onced/idem"
)

func readResponse(t testing.TB, conn net.Conn) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// No description without a route, no route without a description, and every
// example valid.
func TestOpenAPIMatchesRoutes(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	g := e.do("GET", "/openapi.json", "").ok(200)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(g.raw))
	if err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	var described, routed []string
	for path, item := range doc.Paths.Map() {
		for verb, op := range item.Operations() {
			described = append(described, verb+" "+path+" "+op.OperationID)
		}
	}
	err = e.srv.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		for _, m := range r.GetHandler().(*route).methods {
			routed = append(routed, m.verb+" "+path+" "+m.name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described:\n%s\nrouted:\n%s", strings.Join(described, "\n"), strings.Join(routed, "\n"))
	}
	// Query parameters too, both ways.
	for _, rt := range e.srv.routes {
		for _, m := range rt.methods {
			var names []string
			for _, p := range doc.Paths.Value(rt.path).Operations()[m.verb].Parameters {
				if p.Value.In == "query" {
					names = append(names, p.Value.Name)
				}
			}
			want := slices.Clone(m.query)
			slices.Sort(names)
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("%s: described parameters %v, taken %v", m.name, names, want)
			}
		}
	}
}

// The enum of codes in the document is the table of statuses, and each member
// of a request that the document names is taken by its decoder.
func TestOpenAPICodesAndMembers(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(openAPISource)
	if err != nil {
		t.Fatal(err)
	}
	var described, known []string
	for _, v := range doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		described = append(described, v.(string))
	}
	for code := range codes {
		known = append(known, string(code))
	}
	slices.Sort(described)
	slices.Sort(known)
	if !slices.Equal(described, known) {
		t.Errorf("described %v\nknown %v", described, known)
	}
	e := newEdge(t)
	for _, op := range sortedKeys(decoders) {
		schema := doc.Components.Schemas[strings.ToUpper(op[:1])+op[1:]].Value
		for name := range schema.Properties {
			if name == "op" {
				continue
			}
			g := e.post(op, `{"`+name+`":null}`)
			if strings.Contains(g.str("detail"), "not a member") {
				t.Errorf("%s: described member %s is refused: %s", op, name, g.raw)
			}
		}
		e.post(op, `{"op":"`+op+`"}`).problem(400, "invalid_request").says("op")
		e.post(op, `{"surprise":1}`).problem(400, "invalid_request").says("surprise")
	}
}

// The examples of the requests are answered as the document says.
func TestOpenAPIRequestExamplesAreTaken(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(openAPISource)
	if err != nil {
		t.Fatal(err)
	}
	e := newEdge(t)
	for path, item := range doc.Paths.Map() {
		for verb, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			body, err := marshalTest(op.RequestBody.Value.Content["application/json"].Example)
			if err != nil {
				t.Fatal(err)
			}
			g := e.do(verb, strings.ReplaceAll(path, "{ns}", "orders-example"), body)
			if g.status == 400 {
				t.Errorf("%s %s: the example is refused: %s", verb, path, g.raw)
			}
		}
	}
}

// Every operation, in each kind of trouble that may meet it, gives the answer
// that openapi.yaml describes for it, and no other.
func TestOpenAPIAnswersInTrouble(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.namespace("gone", `{}`)
	e.do("DELETE", "/v1/namespaces/gone", "").ok(204)
	doc, err := openapi3.NewLoader().LoadFromData(openAPISource)
	if err != nil {
		t.Fatal(err)
	}
	tooLarge := `{"key":"` + strings.Repeat("x", MaxBodyBytes) + `"}`
	for _, rt := range e.srv.routes {
		for _, m := range rt.methods {
			described := doc.Paths.Value(rt.path).Operations()[m.verb]
			body := ""
			if described.RequestBody != nil {
				b, err := marshalTest(described.RequestBody.Value.Content["application/json"].Example)
				if err != nil {
					t.Fatal(err)
				}
				body = b
			}
			call := func(want int, namespace, body string, headers ...string) {
				t.Helper()
				if described.Responses.Status(want) == nil {
					return
				}
				path := strings.NewReplacer("{ns}", namespace, "{key}", "order-20261130-0001").Replace(rt.path)
				if g := e.do(m.verb, path, body, headers...); g.status != want {
					t.Errorf("%s of %s: status %d, want %d: %s", m.name, namespace, g.status, want, g.raw)
				}
			}
			call(400, "default", body, "Onced-Timeout", "soon")
			call(404, "nowhere", body)
			call(410, "gone", body)
			call(413, "default", tooLarge)
			call(415, "default", body, "Content-Type", "-", "Content-Type", "text/plain")
			for _, trouble := range []struct {
				status int
				set    func(on bool)
			}{
				{500, func(on bool) { e.node.panics = on }},
				{503, func(on bool) {
					e.node.err, e.node.checks[0].OK = nil, !on
					if on {
						e.node.err = &idem.Error{Code: idem.CodeUnavailable}
					}
				}},
			} {
				e.node.set(func() { trouble.set(true) })
				call(trouble.status, "default", body)
				e.node.set(func() { trouble.set(false) })
			}
		}
	}
}
