package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/idem"
)

// plainBodies are at the edges of what is read without the strict decoder.
var plainBodies = []string{
	`{"key":"plain-key-0001"}`, `{"key":null,"idempotencyKey":"plain-key-0001"}`, `{"key":"plain-key-0001","idempotencyKey":"plain-key-0002"}`, `{"key":7}`, `{"Key":"plain-key-0001"}`,
	`{"key":"plain-key-0001","key":"plain-key-0001"}`, `{"key":"plain\u002dkey-0001"}`, `{"key":"plain-key-0001","unknown":1}`, `{"key":"plain-key-0001"} x`, `[]`, `{}`, ``, ` `, `{"key":""}`,
	`{"key":"plain-key-0001","operation":"pay","request":{"b":[1.50],"a":"é\n"},"attemptId":"aaaaaaaaaaaaaaaa","ttl":"1h","lease":"30s","wait":"1s","correlationId":"c-1"}`,
	`{"key":"plain-key-0001","operation":null,"request":null,"attemptId":null,"ttl":null,"lease":null,"wait":null,"correlationId":null}`,
	`{"key":"plain-key-0001","operation":7}`, `{"key":"plain-key-0001","operation":"a\\b"}`, `{"key":"plain-key-0001","operation":"é"}`, `{"key":"plain-key-0001","request":{"a":1,"a":1}}`, `{"key":"plain-key-0001","request":1,"requestHash":"req-1"}`,
	`{"key":"plain-key-0001","requestHash":"req-1","ttl":"soon"}`, `{"key":"plain-key-0001","request":"\ud800"}`, `{"key":"plain-key-0001","request":1e999}`, `{"fingerprint":` + trade + `}`, `{"fingerprint":null,"key":"plain-key-0001"}`,
	`{"key":"plain-key-0001","token":"5","response":{"id":"ch_1","n":12.50},"expectedVersion":2,"correlationId":"c-1"}`, `{"key":"plain-key-0001","token":"5","response": [ 1 , 2 ]}`,
	`{"key":"plain-key-0001","token":"5","response":{"password":"x"}}`, `{"key":"plain-key-0001","token":"5","response":null}`, `{"key":"plain-key-0001","token":null}`, `{"key":"plain-key-0001","token":5}`, `{"key":"plain-key-0001","token":""}`,
	`{"key":"plain-key-0001","token":"5","responseOmitted":true}`, `{"key":"plain-key-0001","token":"5","responseOmitted":null}`, `{"key":"plain-key-0001","token":"5","responseOmitted":"true"}`, `{"key":"plain-key-0001","token":"5","responseOmitted":true,"response":1}`,
	`{"key":"plain-key-0001","token":"5","expectedVersion":0}`, `{"key":"plain-key-0001","token":"5","expectedVersion":null}`, `{"key":"plain-key-0001","token":"5","expectedVersion":1.0}`, `{"key":"plain-key-0001","token":"5","expectedVersion":-1}`, `{"key":"plain-key-0001","token":"5","expectedVersion":1e3}`,
	`{"key":"plain-key-0001","token":"5","expectedVersion":18446744073709551615}`, `{"key":"plain-key-0001","token":"5","expectedVersion":18446744073709551616}`,
	`{"key":"plain-key-0001","token":"5","errorCode":"declined","response":1}`, `{"key":"plain-key-0001","token":"5","errorCode":null}`, `{"key":"plain-key-0001","token":"5","reason":"r"}`, `{"key":"plain-key-0001","token":"5","lease":"30s"}`,
	`{"op":"reserve","key":"plain-key-0001"}`, `{"op":"commit","key":"plain-key-0001","token":"5"}`, `{"op":null}`, `{"op":7}`, `{"op":"x"}`, `{"op":"reserve","op":"commit"}`, `{"key":"plain-key-0001","op":"cancel","reason":"r"}`, `{"op":"fail","wait":"1s"}`,
	`{"op":"re\u0073erve","key":"plain-key-0001"}`, `{"key":"plain-key-0001","op":"reserve","request":{"op":"commit"}}`,
}

// plainServer makes no random ids, so that what is decoded twice is the same.
func plainServer() *Server {
	return New(Options{Node: newFakeNode(), NewID: func() string { return "made-here-000001" }})
}

// decoded is all that came of an operation.
func decoded(s *Server, op string, in *input) string {
	c := &call{srv: s, namespace: "default", correlation: "corr-0001", timeout: time.Second}
	c.r = httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
	it := item{op: op}
	err := decoders[op](c, in, &it)
	cmd, _ := proto.MarshalOptions{Deterministic: true}.Marshal(it.cmd)
	fault := ""
	if err != nil {
		fault = string(err.Code) + ": " + err.Detail
	}
	return fmt.Sprintf("%q %x wait %v made %q key %q correlation %q", fault, cmd, it.wait, it.made, it.key, it.correlation)
}

// FuzzPlainBody: a body that is read member by member gives the command or the
// refusal that the strict decoder gives, alone and in a batch.
func FuzzPlainBody(f *testing.F) {
	for _, s := range plainBodies {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "plain-key-0001")
	}
	s := plainServer()
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		members, plain := idem.PlainMembers(nil, data)
		if !plain {
			return
		}
		before := bytes.Clone(data)
		named, _ := (&input{data: data, members: members, plain: true}).op()
		for op := range decoders {
			for _, batch := range []bool{false, true} {
				if batch && op != named {
					continue // its op chose another decoder, or none
				}
				slow := input{data: data, batch: batch}
				if key != "" && !batch {
					slow.header = []string{key}
				}
				fast := slow
				fast.members, fast.plain = members, true
				got, want := decoded(s, op, &fast), decoded(s, op, &slow)
				if got != want {
					t.Fatalf("%s of %q, in a batch: %v\nread member by member\n%s\nby the strict decoder\n%s", op, data, batch, got, want)
				}
			}
		}
		fast := input{data: data, members: members, plain: true}
		slow := input{data: data}
		op, err := fast.op()
		want, wantErr := slow.op()
		if op != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("op of %q: %q, %v; want %q, %v", data, op, err, want, wantErr)
		}
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed to %q", before, data)
		}
	})
}

// TestPlainBody_NothingAliasesTheBody: what is decoded stays as it was when the
// body's room is used again by another call.
func TestPlainBody_NothingAliasesTheBody(t *testing.T) {
	t.Parallel()
	s := plainServer()
	for _, text := range plainBodies {
		for op := range decoders {
			data := []byte(text)
			members, plain := idem.PlainMembers(nil, data)
			in := input{data: data, members: members, plain: plain}
			c := &call{srv: s, namespace: "default", correlation: "corr-0001", timeout: time.Second}
			c.r = httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
			it := item{op: op}
			_ = decoders[op](c, &in, &it)
			before, _ := proto.MarshalOptions{Deterministic: true}.Marshal(it.cmd)
			for i := range data {
				data[i] = 'X'
			}
			after, _ := proto.MarshalOptions{Deterministic: true}.Marshal(it.cmd)
			if !bytes.Equal(before, after) || strings.Contains(it.key+it.correlation+it.made, "XX") {
				t.Errorf("%s of %s aliases its body: %q", op, text, it.cmd)
			}
		}
	}
}

// TestPlainBody_IsTheHotPath: the bodies of ordinary callers do not need the
// strict decoder.
func TestPlainBody_IsTheHotPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		into func(*scratch) taker
	}{
		{benchReserve, func(s *scratch) taker { return &s.reserve.reserveBody }},
		{benchCommit, func(s *scratch) taker { return &s.commit.commitBody }},
		{`{"key":"plain-key-0001","token":"5","errorCode":"declined","expectedVersion":2}`, func(s *scratch) taker { return &s.fail.failBody }},
		{`{"key":"plain-key-0001","token":"5","reason":"é"}`, func(s *scratch) taker { return &s.release.releaseBody }},
		{`{"key":"plain-key-0001","token":"5","lease":"30s"}`, func(s *scratch) taker { return &s.extend.extendBody }},
	} {
		members, plain := idem.PlainMembers(nil, []byte(c.body))
		s := getScratch()
		if !plain || !s.takeAll(&input{members: members, plain: true}, c.into(s)) {
			t.Errorf("%s is left to the strict decoder", c.body)
		}
		s.free()
	}
}
