package idem

import (
	"strings"
	"testing"
)

func TestUnmarshalTakes(t *testing.T) {
	t.Parallel()
	body := ` {"key":"order-0001","request": {"b" : 1.50, "\u0061":[1e400,"\/"]},"ttl":null,
		"fingerprint":{"kind":"trade","quantity":9007199254740993}} `
	var r ReserveRequest
	if err := Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if *r.Key != "order-0001" || r.TTL != "" || string(r.Fingerprint.Quantity) != "9007199254740993" {
		t.Errorf("%+v", r)
	}
	if want := `{"b" : 1.50, "\u0061":[1e400,"\/"]}`; string(r.Request) != want {
		t.Errorf("request came through as %s, want %s", r.Request, want)
	}
	var s SettleRequest
	if err := Unmarshal([]byte(`{"response":null,"expectedVersion":18446744073709551615}`), &s); err != nil {
		t.Fatal(err)
	}
	if string(s.Response) != "null" || *s.ExpectedVersion != 1<<64-1 {
		t.Errorf("%+v: a null response must stay told from none", s)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64) // 65 with the body itself
	for body, part := range map[string]string{
		"":                               "the body is empty",
		" \r\n":                          "the body is empty",
		"null":                           "must be a JSON object",
		"[]":                             "must be a JSON object",
		`"key"`:                          "must be a JSON object",
		"key=order-0001":                 "must be a JSON object",
		"\ufeff{}":                       "must be a JSON object",
		`{"key":"order-0001"`:            "too early",
		`{"key":"order-0001"} {}`:        "after top-level value",
		`{"key":"order-0001",}`:          "well-formed",
		`{'key':"order-0001"}`:           "well-formed",
		`{"key":1}`:                      "key must be a string",
		`{"key":["order-0001"]}`:         "key must be a string",
		`{"ttl":30}`:                     "ttl must be a string",
		`{"fingerprint":"trade"}`:        "fingerprint must be an object",
		`{"fingerprint":{"mode":true}}`:  "/fingerprint/mode must be a string",
		`{"fingerprint":{"minute":1}}`:   "/fingerprint/minute is not a member",
		`{"Key":"order-0001"}`:           "Key is not a member",
		`{"idempotency_key":"order-01"}`: "idempotency_key is not a member",
		`{"leese":"1s"}`:                 "leese is not a member",
		`{"":1}`:                         "is not a member",
		`{"key":"a","key":"b"}`:          "/key more than once",
		`{"key":"a","\u006bey":"b"}`:     "/key more than once",
		`{"request":{"a":1,"a":1}}`:      "/request/a more than once",
		`{"request":"\ud800"}`:           "/request",
		"{\"request\":\"\xff\"}":         "/request",
		`{"request":` + deep + `}`:       "deeper than 64",
		`{"request":` + strings.Repeat("[", 1_000_000):   "deeper than 64",
		`{"` + strings.Repeat("x", 100_000) + `":1}`:     "is not a member",
		`{"operation":"` + strings.Repeat("x", 100_000):  "too early",
		`{"operation":` + strings.Repeat("9", 100) + `}`: "operation must be a string",
	} {
		var r ReserveRequest
		err := Unmarshal([]byte(body), &r)
		wantCode(t, cut(body), err, CodeInvalidRequest, part)
		if err != nil && len(err.Detail) > 500 {
			t.Errorf("%s: a detail of %d bytes", cut(body), len(err.Detail))
		}
	}
	for body, part := range map[string]string{
		`{"token":1764533000000001}`:               "token must be a string",
		`{"expectedVersion":"1"}`:                  "expectedVersion must be a whole number",
		`{"expectedVersion":-1}`:                   "expectedVersion must be a whole number",
		`{"expectedVersion":1.5}`:                  "expectedVersion must be a whole number",
		`{"expectedVersion":18446744073709551616}`: "expectedVersion must be a whole number",
		`{"ttl":"1s"}`:                             "ttl is not a member",
	} {
		var s SettleRequest
		wantCode(t, body, Unmarshal([]byte(body), &s), CodeInvalidRequest, part)
	}
	for body, part := range map[string]string{
		`{"redact":"yes"}`:    "redact must be true or false",
		`{"maxRecords":"10"}`: "maxRecords must be a whole number",
		`{"maxRecords":1e3}`:  "maxRecords must be a whole number",
	} {
		var p Policy
		wantCode(t, body, Unmarshal([]byte(body), &p), CodeInvalidRequest, part)
	}
	var list struct {
		Operations []Fingerprint `json:"operations"`
	}
	wantCode(t, "no list", Unmarshal([]byte(`{"operations":{}}`), &list), CodeInvalidRequest, "operations must be an array")
	wantCode(t, "in a list", Unmarshal([]byte(`{"operations":[{},{"mode":1}]}`), &list), CodeInvalidRequest, "/operations/1/mode must be a string")
}
