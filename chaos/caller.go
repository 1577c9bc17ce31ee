package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// errNotSent says that a call reached no node: nobody listened.
var errNotSent = errors.New("the node does not listen")

var usualDialer = &net.Dialer{Timeout: time.Second}

// Caller makes single calls, each to one node and each exactly once, and writes
// down what became of them. It repeats nothing by itself: the history must hold
// what each attempt was told.
type Caller struct {
	history *History
	http    *http.Client
	timeout time.Duration // in which a node must decide
}

// NewCaller gives a caller whose calls must be decided within timeout.
func NewCaller(h *History, timeout time.Duration) *Caller {
	return &Caller{history: h, timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         usualDialer.DialContext,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the idle connections.
func (c *Caller) Close() { c.http.CloseIdleConnections() }

// Do makes the call o at a node, and fills in what became of it. The error is
// errNotSent when nothing left this process; the op is then no part of the
// history.
func (c *Caller) Do(ctx context.Context, node *Node, o *Op) error {
	o.Node = node.ID
	path := "/v1/namespaces/" + o.NS + "/"
	method, text := http.MethodPost, ""
	if o.Kind == Get {
		method, path = http.MethodGet, path+"records/"+o.Key
	} else {
		path += o.Kind
		text = toJSON(o.members())
	}
	o.Call = c.history.now()
	status, header, body, err := c.send(ctx, node, method, path, text, time.Duration(o.Wait)*time.Millisecond)
	o.Return = c.history.now()
	if errors.Is(err, errNotSent) {
		return err
	}
	o.take(status, header, body, err)
	c.record(o)
	return nil
}

// Batch makes all of ops, of one namespace, in one call.
func (c *Caller) Batch(ctx context.Context, node *Node, ops []*Op) error {
	items := make([]map[string]any, len(ops))
	number := c.history.nextBatch()
	began := c.history.now()
	for i, o := range ops {
		o.Node, o.Batch, o.Call = node.ID, number, began
		items[i] = o.members()
		items[i]["op"] = o.Kind
	}
	status, header, body, err := c.send(ctx, node, http.MethodPost, "/v1/namespaces/"+ops[0].NS+"/batch", toJSON(map[string]any{"operations": items}), 0)
	ended := c.history.now()
	if errors.Is(err, errNotSent) {
		return err
	}
	var answer idem.BatchAnswer
	if err == nil && status == http.StatusOK {
		if err = json.Unmarshal(body, &answer); err == nil && len(answer.Results) != len(ops) {
			err = errors.New("batch answer has " + strconv.Itoa(len(answer.Results)) + " results")
		}
	}
	for i, o := range ops {
		o.Return = ended
		if err == nil && status == http.StatusOK {
			o.take(answer.Results[i].Status, header, answer.Results[i].Body, nil)
		} else {
			o.take(status, header, body, err)
		}
		c.record(o)
	}
	return nil
}

// record leaves out reads that came to nothing: they say nothing.
func (c *Caller) record(o *Op) {
	if o.Kind == Get && o.Fate != Known {
		return
	}
	c.history.add(o)
}

// members is the body of o.
func (o *Op) members() map[string]any {
	m := map[string]any{}
	if o.Fingerprint == "" {
		m["key"] = o.Key
	} else {
		m["fingerprint"] = printOf(o.Fingerprint)
	}
	put := func(name, value string) {
		if value != "" {
			m[name] = value
		}
	}
	duration := func(name string, ms int64) {
		if ms != 0 {
			m[name] = millis(ms)
		}
	}
	duration("lease", o.Lease)
	if o.Kind == Reserve {
		request, operation, _ := strings.Cut(o.Request, "|")
		m["request"] = map[string]string{"order": request}
		put("operation", operation)
		put("attemptId", o.AttemptID)
		duration("ttl", o.TTL)
		duration("wait", o.Wait)
		return m
	}
	if o.Kind == Cancel {
		m["reason"] = "no longer wanted"
		return m
	}
	put("token", o.Token)
	put("errorCode", o.ErrorCode)
	if o.Response != "" {
		m["response"] = jsontext.Value(o.Response)
	}
	if o.ExpectedVersion != 0 {
		m["expectedVersion"] = o.ExpectedVersion
	}
	if o.Kind == Resolve {
		m["verdict"], m["reason"], m["actor"] = o.Verdict, "looked at the exchange", "judge"
	}
	return m
}

func toJSON(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		panic(err) // the workload's own values
	}
	return string(b)
}

// send makes one request. A connection that could not be made is errNotSent.
func (c *Caller) send(ctx context.Context, node *Node, method, path, text string, wait time.Duration) (int, http.Header, []byte, error) {
	// A node that was stopped by a fault answers nothing: leave a little later
	// than it would have had to.
	ctx, cancel := context.WithTimeout(ctx, c.timeout+wait+500*time.Millisecond)
	defer cancel()
	// Not a *bytes.Reader: the transport must not be able to send it twice.
	var body io.Reader
	if text != "" {
		body = struct{ io.Reader }{strings.NewReader(text)}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+node.HTTP+path, body)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Onced-Timeout", c.timeout.String())
	if text != "" {
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = int64(len(text))
	}
	res, err := c.http.Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return 0, nil, nil, errNotSent
		}
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, nil, err
	}
	return res.StatusCode, res.Header, bytes.Clone(b), nil
}
