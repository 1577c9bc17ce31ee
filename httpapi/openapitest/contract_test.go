package openapitest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

const document = `
openapi: 3.1.0
info: {title: t, version: "1"}
paths:
  /things/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string, pattern: "^[a-z]+$"}}
    post:
      operationId: make
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, additionalProperties: false, properties: {n: {type: integer}}}
      responses:
        "200":
          description: Made.
          headers: {X-Count: {schema: {type: string, pattern: "^[0-9]+$"}}}
          content:
            application/json:
              schema: {type: object, required: [ok], properties: {ok: {type: boolean}}}
        "204": {description: Nothing to do.}
        "400": {description: No., content: {text/plain: {schema: {type: string}}}}
    get:
      operationId: look
      responses:
        default: {description: Anything., content: {text/plain: {schema: {type: string}}}}
`

// Each kind of fault is reported, and nothing else is.
func TestTransport(t *testing.T) {
	t.Parallel()
	contract, err := Load([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	var answer atomic.Value
	type reply struct {
		status                   int
		contentType, count, body string
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		a := answer.Load().(reply)
		w.Header().Set("Content-Type", a.contentType)
		if a.count != "" {
			w.Header().Set("X-Count", a.count)
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	defer server.Close()
	good := reply{200, "application/json", "7", `{"ok":true}`}
	for _, c := range []struct {
		name, method, path, body string
		answer                   reply
		want                     string
	}{
		{"fits", "POST", "/things/a", `{"n":1}`, good, ""},
		{"forbidden and taken", "POST", "/things/a", `{"m":1}`, good, "forbids the request"},
		{"forbidden and refused", "POST", "/things/a", `{"m":1}`, reply{400, "text/plain", "", "no"}, ""},
		{"forbidden and failed", "POST", "/things/A", `{}`, reply{500, "text/plain", "", "oh"}, "forbids the request"},
		{"undescribed status", "POST", "/things/a", `{}`, reply{201, "application/json", "", `{"ok":true}`}, "status is not supported"},
		{"other body", "POST", "/things/a", `{}`, reply{200, "application/json", "7", `{}`}, "ok"},
		{"other type", "POST", "/things/a", `{}`, reply{200, "text/html", "7", `{"ok":true}`}, "text/html"},
		{"other header", "POST", "/things/a", `{}`, reply{200, "application/json", "x", `{"ok":true}`}, "X-Count"},
		{"unknown path, refused", "POST", "/other", `{}`, reply{404, "text/plain", "", ""}, ""},
		{"unknown path, taken", "POST", "/other", `{}`, reply{200, "text/plain", "", ""}, "not described"},
		{"unknown method, taken", "PUT", "/things/a", `{}`, reply{204, "", "", ""}, "not described"},
		{"default", "GET", "/things/a", ``, reply{418, "text/plain", "", "tea"}, ""},
		{"body of a GET, taken", "GET", "/things/a", `{}`, reply{200, "text/plain", "", "tea"}, "forbids the request"},
		{"HEAD", "HEAD", "/things/a", ``, reply{200, "text/plain", "", ""}, ""},
	} {
		var faults []string
		client := &http.Client{Transport: contract.Transport(http.DefaultTransport, func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf(format, args...))
		})}
		answer.Store(c.answer)
		req, err := http.NewRequest(c.method, server.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || c.answer.status != 204 && c.method != "HEAD" && string(b) != c.answer.body {
			t.Errorf("%s: the answer came through as %q, %v", c.name, b, err)
		}
		got := strings.Join(faults, "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: reported %q, want %q", c.name, got, c.want)
		}
	}
	if got := fmt.Sprint(contract.Unseen()); got != "[make 204]" {
		t.Errorf("unseen: %s", got)
	}
}

// A sample checks the first exchanges of each kind alone.
func TestSample(t *testing.T) {
	t.Parallel()
	contract, err := Load([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	contract.Sample(2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	faults := 0
	client := &http.Client{Transport: contract.Transport(http.DefaultTransport, func(string, ...any) { faults++ })}
	for range 5 {
		res, err := client.Post(server.URL+"/things/a", "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	if faults != 2 {
		t.Errorf("%d of 5 checked, want 2", faults)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Load([]byte("openapi: [")); err == nil {
		t.Error("no document, and no error")
	}
}

// What checks tests has no place in the binary.
func TestNotInTheBinary(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "../../cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if strings.Contains(dep, "kin-openapi") || strings.HasSuffix(dep, "/openapitest") {
			t.Errorf("the binary has %s in it", dep)
		}
	}
}
