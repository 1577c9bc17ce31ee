package plainhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// response is an answer: it is made in memory, and goes out in one write.
type response struct {
	header http.Header
	status int // 0: not yet said
	body   []byte
	out    []byte
	names  []string
}

func (w *response) reset() {
	clear(w.header)
	w.status, w.body, w.out, w.names = 0, w.body[:0], w.out[:0], w.names[:0]
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational answers are not
// sent: those that ask for one are not plain.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.head()
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !hasBody(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

// SetReadDeadline is what a handler bounds the reading of a body with: that is
// over before it is called.
func (*response) SetReadDeadline(time.Time) error { return nil }

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// head writes the status line and the headers that the handler has set.
func (w *response) head() {
	w.out = append(w.out, "HTTP/1.1 "...)
	w.out = strconv.AppendInt(w.out, int64(w.status), 10)
	w.out = append(w.out, ' ')
	if text := http.StatusText(w.status); text != "" {
		w.out = append(w.out, text...)
	} else {
		w.out = append(append(w.out, "status code "...), strconv.Itoa(w.status)...) // as net/http says it
	}
	w.out = append(w.out, "\r\n"...)
	for name := range w.header {
		switch name {
		case "Content-Length", "Connection", "Date", "Transfer-Encoding":
		default:
			w.names = append(w.names, name)
		}
	}
	slices.Sort(w.names)
	for _, name := range w.names {
		for _, v := range w.header[name] {
			w.field(name, v)
		}
	}
}

func (w *response) field(name, value string) {
	if strings.ContainsAny(value, "\r\n") {
		value = strings.NewReplacer("\r", " ", "\n", " ").Replace(value)
	}
	w.out = append(append(append(append(w.out, name...), ": "...), value...), "\r\n"...)
}

// finish gives the whole answer. last says that no other follows it.
func (w *response) finish(last bool) []byte {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if _, ok := w.header["Date"]; !ok {
		w.out = append(append(append(w.out, "Date: "...), date()...), "\r\n"...)
	}
	if hasBody(w.status) {
		if _, ok := w.header["Content-Type"]; !ok && len(w.body) > 0 {
			w.field("Content-Type", http.DetectContentType(w.body))
		}
		w.out = append(w.out, "Content-Length: "...)
		w.out = strconv.AppendInt(w.out, int64(len(w.body)), 10)
		w.out = append(w.out, "\r\n"...)
	}
	if last {
		w.out = append(w.out, "Connection: close\r\n"...)
	}
	w.out = append(w.out, "\r\n"...)
	w.out = append(w.out, w.body...)
	return w.out
}

// closes tells that the handler wants the connection to end.
func (w *response) closes() bool {
	for _, v := range w.header["Connection"] {
		if strings.EqualFold(v, "close") {
			return true
		}
	}
	return false
}

// dated is the text of a Date header, good for a second.
type dated struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dated]

func date() string {
	now := time.Now()
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return d.text
}
