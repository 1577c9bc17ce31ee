package plainhttp

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// What is plain. Anything else is left to net/http, so these may be tight.
const (
	maxHead = 8 << 10
	maxBody = 128 << 10
	maxLine = 64 // headers
)

// verdict is what a look at the bytes of a connection comes to.
type verdict int

const (
	partial verdict = iota // more is needed
	plain
	foreign // net/http's
)

// request is a plain request, in a form that is used again by the next one of
// its connection.
type request struct {
	http.Request
	url    url.URL
	body   bodyReader
	values [maxLine]string
	used   int
}

type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }

// parse reads the request that b begins with, and tells how long it is. It knows
// one spelling of everything: whatever it takes, net/http reads in the same way
// (FuzzParse), and what it does not know it does not judge.
func (r *request) parse(b []byte) (verdict, int) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	switch {
	case end < 0 && (len(b) >= maxHead || !mayBegin(b)):
		return foreign, 0
	case end < 0:
		return partial, 0
	case end > maxHead:
		return foreign, 0
	}
	head := string(b[:end+2]) // one allocation for all texts of the request
	line, rest, _ := strings.Cut(head, "\r\n")
	method, line, _ := strings.Cut(line, " ")
	target, proto, _ := strings.Cut(line, " ")
	if method != http.MethodPost && method != http.MethodGet || proto != "HTTP/1.1" || !isPlainPath(target) {
		return foreign, 0
	}
	clear(r.Header)
	r.used = 0
	host, length := "", -1
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(field, ":")
		value = strings.Trim(value, " \t")
		if !ok || !isToken(name) || !isVisible(value) || r.used == maxLine {
			return foreign, 0
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		switch name {
		case "Host":
			if host != "" || !isPlainHost(value) {
				return foreign, 0
			}
			host = value
			continue
		case "Content-Length":
			if length = digits(value, length); length < 0 {
				return foreign, 0
			}
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return foreign, 0
			}
		case "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Expect", "Pragma":
			return foreign, 0
		}
		r.add(name, value)
	}
	if host == "" || length > 0 && method == http.MethodGet {
		return foreign, 0
	}
	n := end + 4
	if length > 0 && len(b)-n < length {
		return partial, 0
	}
	r.Method, r.Host, r.RequestURI = method, host, target
	r.url = url.URL{Path: target}
	r.URL, r.ContentLength, r.Body = &r.url, 0, http.NoBody
	r.Form, r.PostForm, r.MultipartForm, r.Trailer, r.Pattern = nil, nil, nil, nil, "" // what a handler made of the one before
	if length > 0 {
		r.body.Reset(b[n : n+length])
		r.ContentLength, r.Body = int64(length), &r.body
		n += length
	}
	return plain, n
}

var _ io.ReadCloser = (*bodyReader)(nil)

// add puts a header's value into a list of one, all of which lie side by side.
func (r *request) add(name, value string) {
	r.values[r.used] = value
	if list, ok := r.Header[name]; ok {
		r.Header[name] = append(list, value) // copies: the list is full
	} else {
		r.Header[name] = r.values[r.used : r.used+1 : r.used+1]
	}
	r.used++
}

// mayBegin tells whether b can be the begin of a plain request: what cannot is
// not waited for.
func mayBegin(b []byte) bool {
	if end := bytes.IndexByte(b, '\n'); end == 0 || end > 0 && b[end-1] != '\r' {
		return false
	}
	for _, begin := range [...]string{"POST /", "GET /"} {
		if n := min(len(b), len(begin)); string(b[:n]) == begin[:n] {
			return true
		}
	}
	return false
}

// digits reads a Content-Length; before is the one that was there already. -1:
// it is not plain, or too much.
func digits(s string, before int) int {
	if before >= 0 || s == "" || len(s) > 6 {
		return -1
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	if n > maxBody {
		return -1
	}
	return n
}

// class says where a byte may stand.
type class byte

const (
	inPath class = 1 << iota
	inHost
	inName
)

var classes = func() (t [256]class) {
	for c := range 256 {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
			t[c] = inPath | inHost | inName
		case c == '.' || c == ':':
			t[c] = inPath | inHost
		case c == '_':
			t[c] = inPath | inName
		case c == '/' || c == '~':
			t[c] = inPath
		}
	}
	return t
}()

func all(s string, in class) bool {
	for i := range len(s) {
		if classes[s[i]]&in == 0 {
			return false
		}
	}
	return s != ""
}

// isPlainPath tells that a path is the same before and after decoding.
func isPlainPath(s string) bool {
	return all(s, inPath) && s[0] == '/' && !strings.HasPrefix(s, "//")
}

func isPlainHost(s string) bool { return all(s, inHost) }

func isToken(s string) bool { return all(s, inName) }

// isVisible tells that a header's value has nothing but visible ASCII, blanks
// and tabs.
func isVisible(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' || s[i] > '~') && s[i] != '\t' {
			return false
		}
	}
	return true
}
