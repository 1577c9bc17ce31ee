package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// nullWriter is a ResponseWriter that costs nothing of its own.
type nullWriter struct {
	h      http.Header
	status int
	n      int
}

func (w *nullWriter) Header() http.Header         { return w.h }
func (w *nullWriter) WriteHeader(status int)      { w.status = status }
func (w *nullWriter) Write(p []byte) (int, error) { w.n += len(p); return len(p), nil }

// SetReadDeadline is there because net/http's writer has it.
func (w *nullWriter) SetReadDeadline(time.Time) error { return nil }

func (w *nullWriter) reset() {
	clear(w.h)
	w.status, w.n = 0, 0
}

type nullBody struct{ *bytes.Reader }

func (nullBody) Close() error { return nil }

func benchRequest(path string, body []byte) (*http.Request, *bytes.Reader) {
	rd := bytes.NewReader(body)
	return &http.Request{
		Method: "POST", URL: &url.URL{Path: path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: nullBody{rd}, ContentLength: int64(len(body)),
	}, rd
}

const benchReserve = `{"key":"bench-key-0123456789012345678901234567","operation":"payments.charge","request":{"amount":1250,"currency":"EUR"},"attemptId":"5f0c1d9e7a3b48c2a1d4"}`

func BenchmarkDecodeReserve(b *testing.B) {
	s := New(Options{Node: newFakeNode()})
	c := &call{srv: s, namespace: "default", correlation: "corr-1"}
	data := []byte(benchReserve)
	var members []idem.Member
	b.ReportAllocs()
	for b.Loop() {
		var it item
		in := input{data: data}
		members, in.plain = idem.PlainMembers(members[:0], data)
		in.members = members
		if err := decodeReserve(c, &in, &it); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCommit(b *testing.B) {
	s := New(Options{Node: newFakeNode()})
	c := &call{srv: s, namespace: "default", correlation: "corr-1", timeout: time.Second}
	c.r, _ = benchRequest("/", nil)
	data := []byte(benchCommit)
	var members []idem.Member
	b.ReportAllocs()
	for b.Loop() {
		var it item
		in := input{data: data}
		members, in.plain = idem.PlainMembers(members[:0], data)
		in.members = members
		if err := decodeCommit(c, &in, &it); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRespond(b *testing.B) {
	s := New(Options{Node: newFakeNode()})
	w := &nullWriter{h: http.Header{}}
	r, _ := benchRequest("/", nil)
	c := &call{srv: s, w: w, r: r, namespace: "default", correlation: "corr-1"}
	rec := &fsm.Record{
		Namespace: "default", Key: "bench-key-0001", Operation: "op", RequestDigest: "sha256-74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
		Status: fsm.Committed, AttemptID: attemptA, Token: 1796052345678901, Attempt: 1, Version: 2, CreatedAt: epoch, SettledAt: epoch,
		ExpiresAt: epoch.Add(time.Hour), RetainedUntil: epoch.Add(2 * time.Hour), HasResponse: true, Response: []byte(`{"chargeId":"ch_1","amount":12.50}`),
	}
	d := &fsm.Decision{Index: 7, Time: epoch, Results: []fsm.Result{{Outcome: fsm.OutcomeReplayed, Record: rec}}}
	it := item{op: "reserve", cmd: &fsm.Command{Op: fsmpb.Op_OP_RESERVE}}
	b.ReportAllocs()
	for b.Loop() {
		w.reset()
		c.send(c.answer(&it, d, &d.Results[0]))
	}
}

// BenchmarkReplayedReserve is the whole way of a duplicate through ServeHTTP,
// the machine's own answer included (W2 of the targets, without net/http).
func BenchmarkReplayedReserve(b *testing.B) {
	node := newFakeNode()
	s := New(Options{Node: &replayNode{node}})
	w := &nullWriter{h: http.Header{}}
	ask := func(op string, body []byte) {
		r, _ := benchRequest("/v1/namespaces/default/"+op, body)
		s.ServeHTTP(w, r)
	}
	ask("reserve", []byte(benchReserve))
	node.mu.Lock()
	rec, _ := node.machine.Record("default", "bench-key-0123456789012345678901234567")
	node.mu.Unlock()
	ask("commit", []byte(`{"key":"bench-key-0123456789012345678901234567","token":"`+itoa(rec.Token)+`","response":{"chargeId":"ch_1","amount":12.50,"currency":"EUR","status":"ok"}}`))
	r, rd := benchRequest("/v1/namespaces/default/reserve", []byte(benchReserve))
	b.ReportAllocs()
	for b.Loop() {
		w.reset()
		_, _ = rd.Seek(0, io.SeekStart)
		s.ServeHTTP(w, r)
		if w.status != 200 {
			b.Fatal(w.status)
		}
	}
}
