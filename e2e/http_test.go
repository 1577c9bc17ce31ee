package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/httpapi/openapitest"
	"github.com/onced/onced/idem"
)

// nodes are the three HTTP ports of a cluster, by 0 to 2.
type nodes struct {
	t    testing.TB
	port [3]int
	http *http.Client
}

func newNodes(t testing.TB, base int) *nodes {
	n := &nodes{t: t, port: [3]int{base, base + 10, base + 20}}
	n.http = &http.Client{
		Timeout:   30 * time.Second,
		Transport: contract(t).Transport(&http.Transport{MaxIdleConnsPerHost: 256}, t.Errorf),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	t.Cleanup(n.http.CloseIdleConnections)
	return n
}

var loadContract = sync.OnceValues(func() (*openapitest.Contract, error) {
	source, err := os.ReadFile("../httpapi/openapi.yaml")
	if err != nil {
		return nil, err
	}
	c, err := openapitest.Load(source)
	if err == nil {
		c.Sample(5)
	}
	return c, err
})

// contract holds what real nodes answer against openapi.yaml, by samples.
func contract(t testing.TB) *openapitest.Contract {
	t.Helper()
	c, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// body is any answer or problem.
type body struct {
	Outcome         string                `json:"outcome"`
	Token           string                `json:"token"`
	AttemptID       string                `json:"attemptId"`
	Attempt         uint32                `json:"attempt"`
	Resumed         *bool                 `json:"resumed"`
	LeaseRemaining  string                `json:"leaseRemaining"`
	PreviousAttempt *idem.PreviousAttempt `json:"previousAttempt"`
	Record          *idem.Record          `json:"record"`

	Type          string  `json:"type"`
	Title         string  `json:"title"`
	Status        int     `json:"status"`
	Detail        string  `json:"detail"`
	Code          string  `json:"code"`
	Retryable     bool    `json:"retryable"`
	SafeNewKey    bool    `json:"safeNewKey"`
	Applied       string  `json:"applied"`
	Key           string  `json:"key"`
	Operation     *string `json:"operation"`
	Verdict       string  `json:"verdict"`
	RetryAfterMs  int64   `json:"retryAfterMs"`
	CorrelationID string  `json:"correlationId"`
}

// answer is what came back; status 0 and err when nothing did.
type answer struct {
	err    error
	status int
	header http.Header
	raw    []byte
	body
}

// says is the outcome or the code without its prefixes.
func (a *answer) says() string {
	if a.Code != "" {
		return strings.TrimPrefix(strings.TrimPrefix(a.Code, "idempotency_"), "key_")
	}
	return a.Outcome
}

func (a *answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return strconv.Itoa(a.status) + " " + string(a.raw)
}

func (a *answer) index() uint64 {
	i, _ := strconv.ParseUint(a.header.Get("Onced-Index"), 10, 64)
	return i
}

// do sends one request to node i. headers are pairs; one named "-" and the
// name of a header leaves that out.
func (n *nodes) do(i int, method, path, text string, headers ...string) *answer {
	req, err := http.NewRequest(method, "http://"+address(n.port[i])+path, strings.NewReader(text))
	if err != nil {
		return &answer{err: err}
	}
	if text != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for h := range len(headers) / 2 {
		if name, value := headers[2*h], headers[2*h+1]; name == "-" {
			req.Header.Del(value)
		} else {
			req.Header[http.CanonicalHeaderKey(name)] = append(req.Header[http.CanonicalHeaderKey(name)], value)
		}
	}
	res, err := n.http.Do(req)
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header}
	if a.raw, err = io.ReadAll(res.Body); err != nil {
		return &answer{err: err}
	}
	a.read()
	return a
}

// read takes the body apart when it is JSON.
func (a *answer) read() {
	if ct := a.header.Get("Content-Type"); ct == "application/json" || ct == "application/problem+json" {
		_ = json.Unmarshal(a.raw, &a.body)
	}
}

func (n *nodes) get(i int, path string) *answer { return n.do(i, "GET", path, "") }

// call posts an operation in a namespace to node i.
func (n *nodes) call(i int, ns, op string, members map[string]any, headers ...string) *answer {
	return n.do(i, "POST", "/v1/namespaces/"+ns+"/"+op, toJSON(members), headers...)
}

func toJSON(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // a test's own literal
	}
	return string(b)
}

// must ends the test when a call was not answered with status.
func (n *nodes) must(status int, a *answer) *answer {
	n.t.Helper()
	if a.status != status {
		n.t.Fatalf("answered %s, want %d", a, status)
	}
	return a
}

// policy makes or changes a namespace.
func (n *nodes) policy(ns, policy string) {
	n.t.Helper()
	if a := n.do(0, "PUT", "/v1/namespaces/"+ns, policy); a.status != 200 && a.status != 201 {
		n.t.Fatalf("policy %s of %s: %s", policy, ns, a)
	}
}

// record reads a record; nil when there is none.
func (n *nodes) record(i int, ns, key string) *idem.Record {
	n.t.Helper()
	return n.look(i, ns, key, "strong")
}

// look is record with a consistency of its own: local costs no log entry.
func (n *nodes) look(i int, ns, key, consistency string) *idem.Record {
	n.t.Helper()
	a := n.get(i, "/v1/namespaces/"+ns+"/records/"+key+"?consistency="+consistency)
	switch {
	case a.status == 404 && a.Code == "idempotency_not_found":
		return nil
	case a.status != 200:
		n.t.Fatalf("record %s/%s from n%d: %s", ns, key, i+1, a)
	}
	r := new(idem.Record)
	if err := json.Unmarshal(a.raw, r); err != nil {
		n.t.Fatalf("record %s: %v in %s", key, err, a.raw)
	}
	if want := `"` + strconv.FormatUint(r.Version, 10) + `"`; a.header.Get("ETag") != want {
		n.t.Errorf("record %s: ETag %s, want %s", key, a.header.Get("ETag"), want)
	}
	return r
}

// batch posts items through node i and gives their answers.
func (n *nodes) batch(i int, ns string, items []map[string]any) []*answer {
	n.t.Helper()
	out := make([]*answer, 0, len(items))
	for len(items) > 0 {
		part := items[:min(len(items), 1000)]
		items = items[len(part):]
		a := n.must(200, n.call(i, ns, "batch", map[string]any{"operations": part}))
		results := a.results(n.t)
		if len(results) != len(part) {
			n.t.Fatalf("batch of %d: %d results", len(part), len(results))
		}
		out = append(out, results...)
	}
	return out
}

// results takes the answer to a batch apart; nothing when there was none.
func (a *answer) results(t testing.TB) (out []*answer) {
	t.Helper()
	if a.status != 200 {
		return nil
	}
	var got struct {
		Results []struct {
			Status int            `json:"status"`
			Body   jsontext.Value `json:"body"`
		} `json:"results"`
	}
	if err := json.Unmarshal(a.raw, &got); err != nil {
		t.Errorf("batch: %v in %s", err, a)
	}
	for _, r := range got.Results {
		item := &answer{status: r.Status, header: a.header, raw: r.Body}
		_ = json.Unmarshal(r.Body, &item.body)
		out = append(out, item)
	}
	return out
}

// leader gives the node that leads as all of them agree.
func (n *nodes) leader() int {
	n.t.Helper()
	leads := -1
	eventually(n.t, "one leader", func() bool {
		for i := range 3 {
			if a := n.get(i, "/healthz"); a.status == 200 && a.header.Get("Onced-Leader") == "n"+strconv.Itoa(i+1) {
				leads = i
				return true
			}
		}
		return false
	})
	return leads
}

// state is what a node has applied.
type state struct {
	index uint64
	hash  string
}

// settledState waits until all nodes of which have applied the same and gives
// it. Different hashes at one index are the end.
func (n *nodes) settledState(which ...int) state {
	n.t.Helper()
	var common state
	eventually(n.t, "all nodes have applied the same", func() bool {
		common = state{}
		for _, i := range which {
			a := n.get(i, "/v1/stats")
			var s struct {
				AppliedIndex uint64 `json:"appliedIndex"`
				StateHash    string `json:"stateHash"`
			}
			if a.status != 200 || json.Unmarshal(a.raw, &s) != nil {
				return false
			}
			now := state{s.AppliedIndex, s.StateHash}
			if common == (state{}) {
				common = now
			}
			if now.index == common.index && now.hash != common.hash {
				n.t.Fatalf("n%d differs at index %d: state %s, not %s", i+1, now.index, now.hash, common.hash)
			}
			if now != common {
				return false
			}
		}
		return true
	})
	return common
}

// raw writes text to node i's port and gives the connection.
func (n *nodes) raw(i int, text string) net.Conn {
	n.t.Helper()
	conn, err := net.Dial("tcp", address(n.port[i]))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		n.t.Fatal(err)
	}
	return conn
}
