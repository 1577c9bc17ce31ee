package gateway

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// recorder stands between a handler and the caller. It holds an answer back
// until it is settled, as long as that takes no more memory than is kept of it:
// a caller that has a whole answer can then rely on it. An answer that is
// larger, that is flushed, or that is a stream goes through as it comes; its end
// still waits for the settlement: the last byte of one with a length, the end of
// the chunks of one without.
//
// A caller that has gone, or that reads too slowly, loses the answer and never
// the outcome: the handler's writes succeed all the same.
type recorder struct {
	w       http.ResponseWriter
	capture int64         // bytes of the body that are looked at and may be kept
	hold    int64         // bytes that are held back
	patient time.Duration // how long the caller may take to take a write
	sniff   bool          // guess a missing Content-Type, as net/http does

	header  http.Header
	status  int         // 0: not written yet
	sent    http.Header // as they were when the status was written
	body    bytes.Buffer
	size    int64
	passing bool   // the caller has the status and what there is of the body
	last    []byte // held back of a body that has passed
	gone    bool
}

func newRecorder(w http.ResponseWriter, capture, hold int64, patient time.Duration, sniff bool) *recorder {
	return &recorder{w: w, capture: max(capture, hold), hold: hold, patient: patient, sniff: sniff, header: http.Header{}}
}

// Header is the handler's: it reaches the caller with the status.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader takes the status. Informational ones go to the caller at once.
func (r *recorder) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	if status >= 100 && status < 200 {
		if status != http.StatusSwitchingProtocols {
			h := r.w.Header()
			kept := h.Clone()
			for name, v := range r.header {
				h[name] = v
			}
			r.w.WriteHeader(status)
			clear(h)
			for name, v := range kept {
				h[name] = v
			}
		}
		return
	}
	r.status = status
	r.sent = r.header.Clone()
	if streams(r.sent) || r.length() > r.hold {
		r.pass()
	}
}

// streams tells whether an answer is meant to be read while it is written.
func streams(h http.Header) bool {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream", "application/x-ndjson", "application/grpc":
		return true
	}
	return false
}

// length is the Content-Length that the handler named, -1 for none.
func (r *recorder) length() int64 {
	n, err := strconv.ParseInt(r.sent.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Write takes a part of the body.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		if _, typed := r.header["Content-Type"]; r.sniff && !typed && r.header.Get("Content-Encoding") == "" && len(b) > 0 {
			r.header.Set("Content-Type", http.DetectContentType(b))
		}
		r.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	r.size += int64(len(b))
	if room := r.capture - int64(r.body.Len()); room > 0 {
		r.body.Write(b[:min(room, int64(len(b)))])
	}
	switch {
	case r.passing:
		r.write(b)
	case r.size > r.hold:
		// Nothing was cut off before this part: hold is never above capture.
		before := r.body.Bytes()[:min(int64(r.body.Len()), r.size-int64(len(b)))]
		r.passHead()
		r.put(before)
		r.write(b)
	}
	return len(b), nil
}

// Flush sends on what there is: whoever flushes wants it to be read now.
func (r *recorder) Flush() {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.pass()
	if !r.gone {
		_ = http.NewResponseController(r.w).Flush()
	}
}

// pass stops holding back.
func (r *recorder) pass() {
	if r.passing {
		return
	}
	r.passHead()
	r.write(r.body.Bytes())
}

func (r *recorder) passHead() {
	r.passing = true
	h := r.w.Header()
	for name, v := range r.sent {
		h[name] = slices.Clone(v)
	}
	if _, typed := r.sent["Content-Type"]; !typed {
		h["Content-Type"] = nil
	}
	h.Set("Idempotent-Replayed", "false")
	r.w.WriteHeader(r.status)
}

// write hands a part of the body to the caller, but for the last byte of all
// that was promised.
func (r *recorder) write(b []byte) {
	if len(b) > 0 && r.length() == r.size && r.last == nil {
		r.last = []byte{b[len(b)-1]}
		b = b[:len(b)-1]
	}
	r.put(b)
}

func (r *recorder) put(b []byte) {
	if r.gone || len(b) == 0 {
		return
	}
	rc := http.NewResponseController(r.w)
	_ = rc.SetWriteDeadline(time.Now().Add(r.patient))
	_, err := r.w.Write(b)
	r.gone = err != nil
	_ = rc.SetWriteDeadline(time.Time{})
}

// whole tells whether all of the body was captured.
func (r *recorder) whole() bool { return r.size == int64(r.body.Len()) }

// cut tells whether the handler wrote less than it said it would.
func (r *recorder) cut() bool {
	n := r.length()
	return n >= 0 && bodyAllowed(r.status) && r.size < n
}

// finish lets the caller have the rest of the answer: what was held back, and
// trailers.
func (r *recorder) finish() {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.pass()
	r.put(r.last)
	if len(r.sent["Trailer"]) == 0 && !hasTrailers(r.header) {
		return
	}
	announced := connectionList(r.sent["Trailer"])
	for name, v := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(announced, name) {
			r.w.Header()[name] = v
		}
	}
}

func hasTrailers(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

func connectionList(lines []string) []string {
	return connectionTokens(http.Header{"Connection": lines})
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
