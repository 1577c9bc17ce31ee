package scripts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// do sends one call and gives the answer with its body read.
func (s *server) do(method, path, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

// After SIGTERM a node says that it is going, and serves on meanwhile: new
// connections too, and none of them is kept.
func TestB34_DrainServesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t, freeBlock(t), "--data-dir", t.TempDir(), "--drain-delay", "60s")
	s.says("cluster n1 ready")
	if res, body, err := s.do("GET", "/readyz", ""); err != nil || res.StatusCode != 200 || res.Close {
		t.Fatal(res, body, err)
	}
	s.signal()
	deadline := time.Now().Add(20 * time.Second)
	for {
		res, body, err := s.do("GET", "/readyz", "")
		if err != nil {
			t.Fatal("while draining:", err)
		}
		if res.StatusCode == 503 {
			if !strings.Contains(body, "staying: the node is about to stop") || !res.Close {
				t.Errorf("draining: %v %s", res.Header, body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("/readyz does not answer 503 after SIGTERM")
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
	for n := range 3 {
		res, body, err := s.do("POST", "/v1/namespaces/default/reserve", fmt.Sprintf(`{"key":"order-000%d"}`, n))
		if err != nil || res.StatusCode != 201 || !res.Close {
			t.Errorf("while draining: %v %s %v", res, body, err)
		}
	}
	if res, body, err := s.do("GET", "/healthz", ""); err != nil || res.StatusCode != 200 {
		t.Error("a draining node is alive:", body, err)
	}
	s.signal() // who asks twice does not want to wait
	if code := s.exit(); code != 130 {
		t.Errorf("exit %d", code)
	}
}

// With --log-level debug every request is a line, with its correlation id and a
// hash of its key: keys name customers' orders, so none is ever written out.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	const key = "customer-4711-invoice-0815"
	s := startServer(t, freeBlock(t), "--data-dir", t.TempDir(), "--drain-delay", "0s", "--log-level", "debug", "--log-format", "json")
	s.says("cluster n1 ready")
	ns := "/v1/namespaces/default"
	_, answer, err := s.do("POST", ns+"/reserve", `{"key":"`+key+`"}`, "X-Correlation-ID", "correlation-of-the-test")
	if err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`"token":"(\d+)"`).FindStringSubmatch(answer)
	if token == nil {
		t.Fatal(answer)
	}
	for _, call := range []struct{ method, path, body string }{
		{"GET", ns + "/records/" + key, ""},
		{"GET", ns + "/records/" + key + "/", ""},
		{"GET", ns + "/records/" + key + "?no=such", ""},
		{"GET", ns + "/records?prefix=" + key, ""},
		{"GET", ns + "/records?cursor=" + key, ""},
		{"POST", ns + "/commit", `{"key":"` + key + `","token":"` + token[1] + `","response":"` + key + `"}`},
		{"POST", ns + "/commit", `{"key":"` + key + `","token":"1"}`},
		{"POST", ns + "/cancel", `{"key":"` + key + `","reason":"r"}`},
		{"POST", ns + "/reserve", `{"key":"` + key + `","key":"` + key + `"}`},
		{"POST", ns + "/reserve", `{"key":"` + key + ` "}`},
		{"POST", ns + "/batch", `{"operations":[{"op":"reserve","key":"` + key + `"}]}`},
		{"POST", "/v1/nowhere/" + key, `{}`},
		{"PATCH", ns + "/records/" + key, `{}`},
	} {
		if _, _, err := s.do(call.method, call.path, call.body, "Idempotency-Key", key); err != nil {
			t.Fatal(call, err)
		}
	}
	s.signal()
	if code := s.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	log := s.stderr.String()
	sum := sha256.Sum256([]byte(key))
	var line string
	for _, l := range strings.Split(log, "\n") {
		if strings.Contains(l, "correlation-of-the-test") {
			line = l
		}
	}
	for _, part := range []string{`"msg":"request"`, `"operation":"reserve"`, `"status":201`, `"outcome":"reserved"`, `"key_hash":"` + hex.EncodeToString(sum[:8]) + `"`} {
		if !strings.Contains(line, part) {
			t.Errorf("no %s in the line of the reserve: %s", part, line)
		}
	}
	for _, l := range strings.Split(log+s.stdout.String(), "\n") {
		if strings.Contains(l, key) || strings.Contains(l, "customer-4711") {
			t.Errorf("the key is in the log: %s", l)
		}
	}
}
