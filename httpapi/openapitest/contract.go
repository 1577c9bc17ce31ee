// Package openapitest holds the HTTP traffic of tests against an OpenAPI
// document: a Transport checks each request and answer that goes through it, and
// a Contract tells at the end which described answers no test has seen. It is for
// tests alone; nothing that is built into the binary may import it.
package openapitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
)

// Answer is a described answer of an operation: its operationId, and a status
// code or "default".
type Answer struct{ Operation, Status string }

func (a Answer) String() string { return a.Operation + " " + a.Status }

// Contract is an OpenAPI document and what has been seen of it. It is safe for
// concurrent use.
type Contract struct {
	doc    *openapi3.T
	router routers.Router

	sample int // check no more than so many exchanges an Answer; 0: all

	mu   sync.Mutex // guards seen
	seen map[Answer]int
}

// Load reads a document, YAML or JSON. Its servers are left aside: it is held
// against whatever host answers.
func Load(source []byte) (*Contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		return nil, err
	}
	doc.Servers = nil
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	return &Contract{doc: doc, router: router, seen: map[Answer]int{}}, nil
}

// Sample makes the transports check only the first n exchanges that end in the
// same Answer, and none of more than 32 KiB: a check takes milliseconds, which
// tests that make load cannot spare. Call it before the first Transport.
func (c *Contract) Sample(n int) { c.sample = n }

const sampledBytes = 32 << 10

// Transport gives a RoundTripper that sends through base and calls report, once
// a fault, with what does not fit the document:
//
//   - a request that the document forbids and that was not refused with a 4xx, in
//     a batch by part (tests send such on purpose);
//   - an answer whose status, headers or body the document does not describe;
//   - an answer below 400, other than to OPTIONS, on a path or method that the
//     document does not have.
//
// HEAD is held against what is described of GET, without a body. Both bodies are
// read whole before the answer is handed on. report may be called from several
// goroutines, as testing.T's Errorf may.
func (c *Contract) Transport(base http.RoundTripper, report func(format string, args ...any)) http.RoundTripper {
	return &transport{contract: c, base: base, report: report}
}

// Unseen lists the described answers that went through no Transport, sorted.
func (c *Contract) Unseen() []Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Answer
	for _, item := range c.doc.Paths.Map() {
		for _, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if a := (Answer{op.OperationID, status}); c.seen[a] == 0 {
					out = append(out, a)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Answer) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return out
}

// saw counts an exchange and tells whether it is one to check.
func (c *Contract) saw(op *openapi3.Operation, status, size int) bool {
	a := Answer{op.OperationID, strconv.Itoa(status)}
	if op.Responses.Status(status) == nil {
		a.Status = "default"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[a]++
	return c.sample == 0 || c.seen[a] <= c.sample && size <= sampledBytes
}

type transport struct {
	contract *Contract
	base     http.RoundTripper
	report   func(format string, args ...any)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := t.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(answer))
	if err != nil { // cut on the way: the reader shall see what there was, and the error
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(answer), failing{err}))
		return res, nil
	}
	for _, fault := range t.contract.check(r, body, res, answer) {
		t.report("%s %s: %d: %v\n%s", r.Method, r.URL, res.StatusCode, fault, answer)
	}
	return res, nil
}

// CloseIdleConnections lets http.Client close those of base.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// check gives what of one exchange does not fit.
func (c *Contract) check(r *http.Request, body []byte, res *http.Response, answer []byte) (faults []error) {
	asked := r.Clone(context.Background())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	asked.ContentLength = int64(len(body))
	if len(body) == 0 {
		asked.Body = http.NoBody
	}
	if r.Method == http.MethodHead {
		asked.Method = http.MethodGet
	}
	route, params, err := c.router.FindRoute(asked)
	if err != nil {
		if res.StatusCode < 400 && r.Method != http.MethodOptions {
			faults = append(faults, fmt.Errorf("answered, and not described: %w", err))
		}
		return faults
	}
	if r.Method != http.MethodHead && !c.saw(route.Operation, res.StatusCode, len(body)+len(answer)) {
		return nil
	}
	input := &openapi3filter.RequestValidationInput{
		Request: asked, PathParams: params, Route: route,
		Options: &openapi3filter.Options{SkipSettingDefaults: true, RejectWhenRequestBodyNotSpecified: true},
	}
	if err := openapi3filter.ValidateRequest(context.Background(), input); misfit(err) && !refused(res.StatusCode, answer) {
		faults = append(faults, fmt.Errorf("the document forbids the request: %w", err))
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, ExcludeResponseBody: r.Method == http.MethodHead,
		},
	}
	out.SetBodyBytes(answer)
	if err := openapi3filter.ValidateResponse(context.Background(), out); misfit(err) {
		return append(faults, fmt.Errorf("not an answer that the document describes: %w", err))
	}
	if described := route.Operation.Responses.Status(res.StatusCode); described != nil && len(described.Value.Content) == 0 && len(answer) > 0 {
		faults = append(faults, errors.New("a body, and none is described"))
	}
	return faults
}

// refused tells whether an answer refuses a request, or, in an answer to a
// batch, a part of it.
func refused(status int, answer []byte) bool {
	var batch struct {
		Results []struct {
			Status int `json:"status"`
		} `json:"results"`
	}
	if status == http.StatusOK && json.Unmarshal(answer, &batch) == nil {
		for _, r := range batch.Results {
			if refused(r.Status, nil) {
				return true
			}
		}
	}
	return status >= 400 && status < 500
}

// misfit tells a fault from a limit of the validator: it holds numbers as
// float64, and JSON has larger ones.
func misfit(err error) bool {
	return err != nil && !strings.Contains(err.Error(), "value out of range")
}
