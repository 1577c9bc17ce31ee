package bench

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"
)

// tokenLength is that of the longest token, a uint64.
const tokenLength = 20

// template is a request made beforehand, with places for a key and a token.
type template struct {
	bytes      []byte
	key, token int // where they begin; -1: it has none
}

func newTemplate(head func(path string, length int) []byte, path, body string) template {
	b := append(head(path, len(body)), body...)
	return template{b, bytes.Index(b, []byte(keyMark)), bytes.Index(b, []byte(tokenMark))}
}

var (
	keyMark   = strings.Repeat("K", keyLength)
	tokenMark = strings.Repeat("T", tokenLength) + `"`
)

// fill puts key and token in their places. A token shorter than its place ends
// earlier, and white space follows: the length of the request stays.
func (t *template) fill(key *benchKey, token []byte) []byte {
	copy(t.bytes[t.key:], key[:])
	if t.token >= 0 {
		at := t.bytes[t.token : t.token+tokenLength+1]
		n := copy(at[:tokenLength], token)
		at[n] = '"'
		for i := n + 1; i < len(at); i++ {
			at[i] = ' '
		}
	}
	return t.bytes
}

// line is a connection and the requests for its first endpoint.
type line struct {
	*conn
	head            func(path string, length int) []byte
	reserve, commit template
}

// caller is one client: its connections and the keys it makes. It is for one
// goroutine.
type caller struct {
	o      *Onced
	client int
	lines  []*line
	calls  int // over all lines, in turn
	made   uint64
	key    benchKey
	token  [tokenLength]byte
	batch  batch
}

func newCaller(o *Onced, client int) (*caller, error) {
	addresses := make([]string, len(o.Endpoints))
	paths := make([]string, len(o.Endpoints))
	for i, e := range o.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return nil, &failure{codeNoConnection, errNoURL(e)}
		}
		addresses[i], paths[i] = u.Host, strings.TrimRight(u.Path, "/")
		if u.Port() == "" {
			addresses[i] += ":80"
		}
	}
	c := &caller{o: o, client: client}
	lines, first := 1, client
	switch o.Spread {
	case SpreadLeader:
		first = 0
	case SpreadAll:
		lines = len(addresses)
	}
	for i := range lines {
		at := (first + i) % len(addresses)
		l := &line{conn: newConn(addresses, at)}
		base := paths[at] + "/v1/namespaces/" + url.PathEscape(o.Namespace)
		l.head = func(path string, length int) []byte {
			return []byte("POST " + base + path + " HTTP/1.1\r\nHost: " + addresses[at] +
				"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n")
		}
		l.reserve = newTemplate(l.head, "/reserve", `{"key":"`+keyMark+`"}`)
		l.commit = newTemplate(l.head, "/commit", `{"key":"`+keyMark+`","token":"`+tokenMark+`,"response":`+string(o.response())+`}`)
		c.lines = append(c.lines, l)
	}
	return c, nil
}

type errNoURL string

func (e errNoURL) Error() string { return strconv.Quote(string(e)) + " is not a base URL with http://" }

// next gives the line for the next call.
func (c *caller) next() *line {
	if len(c.lines) == 1 {
		return c.lines[0]
	}
	c.calls++
	return c.lines[c.calls%len(c.lines)]
}

// fresh makes the next key.
func (c *caller) fresh() *benchKey {
	c.o.keys.put(&c.key, c.client, c.made)
	c.made++
	return &c.key
}

// outcome is what a reserve was answered.
type outcome int

const (
	refusedOutcome outcome = iota // the error tells
	granted
	replayed
)

// reserve reserves a key. The token of a grant is good until the next call.
func (c *caller) reserve(ctx context.Context, key *benchKey) (outcome, []byte, error) {
	l := c.next()
	status, body, err := l.call(ctx, l.reserve.fill(key, nil))
	switch {
	case err != nil:
		return refusedOutcome, nil, err
	case status == 201:
		if token := member(body, `"token":"`); len(token) > 0 && len(token) <= tokenLength {
			n := copy(c.token[:], token)
			return granted, c.token[:n], nil
		}
		return refusedOutcome, nil, &failure{codeBadAnswer, refusal("a grant without a token")}
	case status == 200 && bytes.HasPrefix(body, []byte(`{"outcome":"replayed"`)):
		if !c.o.hasResponse(body) {
			return refusedOutcome, nil, refusal(codeOtherResponse)
		}
		return replayed, nil, nil
	}
	return refusedOutcome, nil, refused(status, body)
}

// commit commits a key with the response of the workload.
func (c *caller) commit(ctx context.Context, key *benchKey, token []byte) error {
	l := c.next()
	status, body, err := l.call(ctx, l.commit.fill(key, token))
	if err != nil {
		return err
	}
	if status != 200 {
		return refused(status, body)
	}
	return nil
}
