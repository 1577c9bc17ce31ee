package plainhttp

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const post = "POST /v1/ns/default/reserve HTTP/1.1\r\nHost: 127.0.0.1:4747\r\n"

// foreignRequests are what is left to net/http, the classics of smuggling among
// them.
var foreignRequests = map[string]string{
	"two lengths":         post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
	"length and chunks":   post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
	"chunks":              post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"length with a sign":  post + "Content-Length: +2\r\n\r\n{}",
	"length with a blank": post + "Content-Length: 2 2\r\n\r\n{}",
	"empty length":        post + "Content-Length:\r\n\r\n",
	"large body":          post + "Content-Length: 999999\r\n\r\n",
	"blank before colon":  post + "Content-Length : 2\r\n\r\n{}",
	"folded header":       post + "A: b\r\n c\r\n\r\n",
	"bare line feed":      post + "A: b\nContent-Length: 2\r\n\r\n{}",
	"bare line feeds":     "GET / HTTP/1.1\nHost: a\n\n", // and nothing more is waited for
	"null in a value":     post + "A: b\x00\r\n\r\n",
	"vertical tab":        post + "Content-Length:\x0b2\r\n\r\n{}",
	"other bytes":         post + "A: \xff\r\n\r\n",
	"no colon":            post + "A\r\n\r\n",
	"no name":             post + ": b\r\n\r\n",
	"expect":              post + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
	"upgrade":             post + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
	"close":               post + "Connection: close\r\n\r\n",
	"pragma":              post + "Pragma: no-cache\r\n\r\n",
	"no host":             "POST / HTTP/1.1\r\n\r\n",
	"two hosts":           post + "Host: b\r\n\r\n",
	"empty host":          "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"odd host":            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"HTTP/1.0":            "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"absolute target":     "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"two slashes":         "GET //a HTTP/1.1\r\nHost: a\r\n\r\n",
	"query":               "GET /v1/keys?limit=2 HTTP/1.1\r\nHost: a\r\n\r\n",
	"escape":              "GET /%61 HTTP/1.1\r\nHost: a\r\n\r\n",
	"fragment":            "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
	"two blanks":          "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD":                "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
	"lower case":          "get / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET with a body":     "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/2":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"TLS":                 "\x16\x03\x01\x02\x00",
	"long head":           post + "A: " + strings.Repeat("b", maxHead) + "\r\n\r\n",
	"many headers":        post + strings.Repeat("A: b\r\n", maxLine+1) + "\r\n",
}

var plainRequests = []string{
	"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	post + "Content-Length: 0\r\n\r\n",
	post + "\r\n",
	post + "content-length: 2\r\nCONTENT-TYPE:application/json\r\nidempotency-key: \t a b \t\r\n\r\n{}",
	post + "Connection: Keep-Alive\r\nContent-Length: 3\r\nX-A: 1\r\nX-A: 2\r\nX-B:\r\nx-a: 3\r\n\r\n{ }GET /next HTTP/1.1\r\n",
}

func newRequest() *request { return &request{Request: http.Request{Header: http.Header{}}} }

func TestWhatIsPlain(t *testing.T) {
	t.Parallel()
	for name, b := range foreignRequests {
		if what, _ := newRequest().parse([]byte(b)); what != foreign {
			t.Errorf("%s: %v", name, what)
		}
	}
	for _, b := range plainRequests {
		r := newRequest()
		what, n := r.parse([]byte(b))
		if what != plain {
			t.Errorf("%q: %v", b, what)
		}
		sameAsNetHTTP(t, r, n, []byte(b))
		for i := range n { // from any begin of it nothing is concluded but that it goes on
			if what, _ := newRequest().parse([]byte(b[:i])); what != partial {
				t.Errorf("%q, cut off at %d: %v", b, i, what)
			}
		}
	}
}

// sameAsNetHTTP holds a request that was read from the first n bytes of b against
// net/http's reading of b.
func sameAsNetHTTP(t *testing.T, r *request, n int, b []byte) {
	t.Helper()
	in := bufio.NewReaderSize(bytes.NewReader(b), 1<<20)
	want, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q is plain, and net/http says: %v", b, err)
	}
	body, err := io.ReadAll(want.Body)
	if err != nil {
		t.Fatalf("%q is plain, and net/http says: %v", b, err)
	}
	if rest, _ := io.ReadAll(in); len(b)-len(rest) != n {
		t.Fatalf("%q: %d bytes, net/http takes %d", b, n, len(b)-len(rest))
	}
	mine, _ := io.ReadAll(r.Body)
	if r.Method != want.Method || r.RequestURI != want.RequestURI || r.Host != want.Host || r.ContentLength != want.ContentLength ||
		!reflect.DeepEqual(r.URL, want.URL) || !reflect.DeepEqual(r.Header, want.Header) || !bytes.Equal(mine, body) ||
		want.Close || want.TransferEncoding != nil || want.Trailer != nil || want.Proto != "HTTP/1.1" {
		t.Fatalf("%q:\n%+v %q\nnet/http:\n%+v %q", b, r.Request, mine, want, body)
	}
}

// FuzzParse: what is taken as plain is read by net/http in the same way, to the
// byte; nothing else reaches the handler.
func FuzzParse(f *testing.F) {
	for _, b := range plainRequests {
		f.Add([]byte(b))
	}
	for _, b := range foreignRequests {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRequest()
		if _, n := r.parse([]byte(plainRequests[3])); n == 0 { // what was there before leaves no trace
			t.Fatal("not plain")
		}
		if what, n := r.parse(b); what == plain {
			sameAsNetHTTP(t, r, n, b)
		}
	})
}
