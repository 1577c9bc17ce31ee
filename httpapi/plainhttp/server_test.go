package plainhttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a handler with one answer of each kind.
var answers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/nothing":
	case "/created":
		w.Header().Set("Content-Type", "application/json")
		w.Header()["Etag"] = []string{`"1"`}
		w.Header().Add("X-Many", "1")
		w.Header().Add("X-Many", "2")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "too late")
		w.WriteHeader(http.StatusTeapot) // the first counts
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"got":%q}`, b)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/problem":
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1\r\nX-Evil: 1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("{}"))
	case "/odd":
		w.WriteHeader(299)
	case "/sniffed":
		_, _ = w.Write([]byte("<html>"))
	case "/large":
		_, _ = w.Write(make([]byte, 300<<10))
	case "/last":
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte("bye"))
	case "/panic":
		panic("for the test")
	}
})

// start serves h through plainhttp, or through net/http alone.
func start(t *testing.T, h http.Handler, alone bool, set ...func(*http.Server)) (addr string, s *Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	for _, f := range set {
		f(hs)
	}
	s = New(hs)
	served := make(chan error, 1)
	go func() {
		if alone {
			served <- hs.Serve(l)
		} else {
			served <- s.Serve(l)
		}
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return l.Addr().String(), s
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) { // between two looks
		if time.Now().After(end) {
			t.Fatal("it does not come to that")
		}
	}
}

// watcher gives the watch over the one call that is watched, if there is one.
func (s *Server) watcher() (w *hangUp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		if c.watcher != nil {
			w = c.watcher
		}
		c.mu.Unlock()
	}
	return w
}

// told is an answer as text, without its date, and without its length, which
// net/http leaves out of large ones.
func told(t *testing.T, in *bufio.Reader, method string) string {
	t.Helper()
	r, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return "no answer"
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	if _, err := http.ParseTime(r.Header.Get("Date")); err != nil && r.StatusCode < 400 {
		t.Error(err)
	}
	r.Header.Del("Date")
	r.Header.Del("Content-Length")
	return fmt.Sprintf("%s %s %v %q close=%v", r.Proto, r.Status, r.Header, b, r.Close)
}

// The same handler gives the same answers through both, whatever it answers, and
// however the bytes come.
func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	t.Parallel()
	mine, _ := start(t, answers, false)
	theirs, _ := start(t, answers, true)
	calls := []struct{ method, request string }{}
	for _, path := range []string{"nothing", "created", "none", "problem", "odd", "sniffed", "large", "missing", "last", "panic"} {
		calls = append(calls,
			struct{ method, request string }{"POST", "POST /" + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"},
			struct{ method, request string }{"GET", "GET /" + path + " HTTP/1.1\r\nhost: a\r\n\r\n"},
			struct{ method, request string }{"HEAD", "HEAD /" + path + " HTTP/1.1\r\nHost: a\r\n\r\n"})
	}
	for _, c := range calls {
		// Twice on one connection, and the second time byte by byte.
		answersOf := func(addr string) (all []string) {
			conn := dial(t, addr)
			in := bufio.NewReader(conn)
			_, _ = io.WriteString(conn, c.request)
			all = append(all, told(t, in, c.method))
			for i := range len(c.request) {
				_, _ = io.WriteString(conn, c.request[i:i+1])
			}
			return append(all, told(t, in, c.method))
		}
		got, want := answersOf(mine), answersOf(theirs)
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%.80q, answer %d:\n%.300s\nnet/http:\n%.300s", c.request, i, got[i], want[i])
			}
		}
	}
	for name, b := range foreignRequests {
		answerOf := func(addr string) string {
			conn := dial(t, addr)
			_, _ = io.WriteString(conn, b)
			_ = conn.(*net.TCPConn).CloseWrite()
			method, _, _ := strings.Cut(b, " ")
			return told(t, bufio.NewReader(conn), method)
		}
		if got, want := answerOf(mine), answerOf(theirs); got != want {
			t.Errorf("%s:\n%.300s\nnet/http:\n%.300s", name, got, want)
		}
	}
}

// Requests that come in one packet are answered in order, also when the last of
// them is net/http's.
func TestPipelined(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.URL.RequestURI(), " ", string(b))
	}), false)
	conn := dial(t, addr)
	var all strings.Builder
	for i := range 20 {
		fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d", i, i)
	}
	all.WriteString("GET /last?x=1 HTTP/1.1\r\nHost: a\r\n\r\nGET /after HTTP/1.1\r\nHost: a\r\n\r\n")
	_, _ = io.WriteString(conn, all.String())
	in := bufio.NewReader(conn)
	for i := range 20 {
		if got, want := told(t, in, "POST"), fmt.Sprintf("%q", fmt.Sprintf("/%d %02d", i, i)); !strings.Contains(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	for _, want := range []string{`"/last?x=1 "`, `"/after "`} {
		if got := told(t, in, "GET"); !strings.Contains(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// An empty line behind a POST is let pass, as net/http does, and what a handler
// made of one request is not in the next.
func TestEmptyLineAndForms(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		fmt.Fprint(w, r.Form.Get("a"))
	}), false)
	conn := dial(t, addr)
	in := bufio.NewReader(conn)
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=%d\r\n"
	for i := range 3 {
		fmt.Fprintf(conn, post, i)
		if got := told(t, in, "POST"); !strings.Contains(got, fmt.Sprintf(`"%d"`, i)) {
			t.Fatalf("%d: %s", i, got)
		}
	}
	fmt.Fprintf(conn, post, 3)
	_, _ = io.WriteString(conn, "GET /?a=4 HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{`"3"`, `"4"`} {
		if got := told(t, in, "GET"); !strings.Contains(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// A caller that goes away during a shutdown ends the context of its call too.
func TestHangUpDuringShutdown(t *testing.T) {
	t.Parallel()
	began, over := make(chan struct{}), make(chan struct{})
	addr, s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(over)
	}), false)
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	eventually(t, s.closing.Load)
	_ = conn.Close()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("the caller has gone, and its call goes on")
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A caller that goes away ends the context of its call; one that only sends its
// next request does not, and gets both answers.
func TestHangUp(t *testing.T) {
	t.Parallel()
	began, over := make(chan struct{}), make(chan error, 1)
	release := make(chan struct{})
	addr, s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/long" {
			return
		}
		began <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
		over <- r.Context().Err()
	}), false)
	const long = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n"
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, long)
	<-began
	_ = conn.Close()
	if err := <-over; err != context.Canceled {
		t.Fatalf("the caller has gone, and the context says %v", err)
	}

	conn = dial(t, addr)
	in := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, long)
	<-began
	var w *hangUp
	eventually(t, func() bool { w = s.watcher(); return w != nil })
	_, _ = io.WriteString(conn, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	<-w.done // it has met the next request
	release <- struct{}{}
	if err := <-over; err != nil {
		t.Fatalf("the caller is there, and the context says %v", err)
	}
	for range 2 {
		if got := told(t, in, "GET"); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Fatal(got)
		}
	}

	_, _ = io.WriteString(conn, long)
	<-began
	eventually(t, func() bool { return s.watcher() != nil })
	release <- struct{}{}
	<-over
	told(t, in, "GET")
	_, _ = io.WriteString(conn, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := told(t, in, "GET"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Fatalf("after a watched call: %s", got)
	}
}

// A shutdown ends idle connections at once, and those with a call after its
// answer, which says so.
func TestShutdown(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	addr, s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			close(began)
			<-release
		}
	}), false)
	idle, busy := dial(t, addr), dial(t, addr)
	_, _ = io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	idleIn := bufio.NewReader(idle)
	told(t, idleIn, "GET")
	_, _ = io.WriteString(busy, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(short); err != context.DeadlineExceeded {
		t.Fatalf("shut down with a call under way: %v", err)
	}
	if _, err := idleIn.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	close(release)
	if got := told(t, bufio.NewReader(busy), "GET"); !strings.HasSuffix(got, "close=true") {
		t.Error(got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("it still accepts")
	}
}

// A connection that sends nothing, or nothing more, is closed in time, and half a
// request is net/http's to judge.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, answers, false, func(s *http.Server) {
		s.ReadHeaderTimeout, s.IdleTimeout = 100*time.Millisecond, 150*time.Millisecond
	})
	for name, sent := range map[string]string{
		"nothing": "", "a request": "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "half a head": "GET / HTTP/1.1\r\nHo",
		"half a body": "POST /created HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, addr)
			_, _ = io.WriteString(conn, sent)
			if name == "half a body" {
				_ = conn.(*net.TCPConn).CloseWrite() // the handler bounds how long it waits
			}
			if _, err := io.ReadAll(conn); err != nil {
				t.Errorf("not closed: %v", err)
			}
		})
	}
}

// Many callers at once, some of which come and go.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte(r.Header.Get("X-Me")+" "), b...))
	}), false)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	t.Cleanup(client.CloseIdleConnections)
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for k := range 100 {
				want := fmt.Sprintf("%d-%d %s", i, k, strings.Repeat("x", k*50))
				req, _ := http.NewRequest("POST", "http://"+addr+"/x", strings.NewReader(strings.Repeat("x", k*50)))
				req.Header.Set("X-Me", fmt.Sprintf("%d-%d", i, k))
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				b, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if string(b) != want {
					t.Errorf("got %.40q, want %.40q", b, want)
				}
			}
		})
	}
	callers.Wait()
}
