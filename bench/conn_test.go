package bench

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rawServer answers the requests of each connection with what script gives for
// the connection, one answer a request, and closes it after the last.
func rawServer(t *testing.T, script func(connection int) []string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for _, answer := range script(n) {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = r.Discard(int(req.ContentLength))
					_, _ = c.Write([]byte(answer))
				}
			}()
		}
	}()
	return l.Addr().String()
}

const request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"

func TestConnReads(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 3*connBuffer)
	for _, c := range []struct {
		name, answer string
		status       int
		body         string
		code         string
	}{
		{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", ""},
		{"any case and order", "HTTP/1.1 404 Not Found\r\ncontent-LENGTH:2\r\nX: y\r\nConnection: keep-alive\r\n\r\nab", 404, "ab", ""},
		{"empty", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, "", ""},
		{"long", "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(long)) + "\r\n\r\n" + long, 200, long, ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 0, "", codeBadAnswer},
		{"no length", "HTTP/1.1 200 OK\r\nX: y\r\n\r\nabc", 0, "", codeBadAnswer},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc", 0, "", codeBadAnswer},
		{"huge", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", 0, "", codeBadAnswer},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 0, "", codeBadAnswer},
		{"continue", "HTTP/1.1 100 Continue\r\n\r\n", 0, "", codeBadAnswer},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc", 0, "", codeLost},
		{"cut in the head", "HTTP/1.1 20", 0, "", codeLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := newConn([]string{rawServer(t, func(int) []string { return []string{c.answer} })}, 0)
			defer conn.close()
			status, body, err := conn.call(t.Context(), []byte(request))
			if c.code != "" {
				if err == nil || codeOf(err) != c.code || conn.c != nil {
					t.Errorf("%d %q %v", status, body, err)
				}
				return
			}
			if err != nil || status != c.status || string(body) != c.body {
				t.Errorf("%d %d bytes %v", status, len(body), err)
			}
		})
	}
}

// A connection is kept, made anew when the server says or does close it, and
// then at the next address; no call is sent twice.
func TestConnGoesOn(t *testing.T) {
	t.Parallel()
	const ok, last = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n"
	var a, b atomic.Int64
	first := rawServer(t, func(int) []string {
		if a.Add(1) == 1 {
			return []string{ok + "a", last + "b"}
		}
		return []string{ok + "c"} // and closes without a word
	})
	second := rawServer(t, func(int) []string { b.Add(1); return []string{ok + "d", ok + "e"} })
	conn := newConn([]string{first, second}, 0)
	defer conn.close()
	for i, want := range []string{"a", "b", "c", "", "d", "e"} {
		_, body, err := conn.call(t.Context(), []byte(request))
		if want == "" {
			if codeOf(err) != codeLost {
				t.Errorf("call %d: %q, %v", i, body, err)
			}
			continue
		}
		if err != nil || string(body) != want {
			t.Errorf("call %d: %q, %v, want %q", i, body, err, want)
		}
	}
	if a.Load() != 2 || b.Load() != 1 {
		t.Errorf("%d and %d connections", a.Load(), b.Load())
	}
}

func TestConnWithoutAServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	l.Close()
	conn := newConn([]string{gone, gone}, 1)
	if _, _, err := conn.call(t.Context(), []byte(request)); err == nil || codeOf(err) != codeNoConnection {
		t.Error(err)
	}
	there := rawServer(t, func(int) []string { return []string{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"} })
	conn = newConn([]string{gone, there}, 0)
	defer conn.close()
	if status, _, err := conn.call(t.Context(), []byte(request)); err != nil || status != 200 {
		t.Error(status, err)
	}
}

// A call ends with its context.
func TestConnEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	conn := newConn([]string{strings.TrimPrefix(s.URL, "http://")}, 0)
	if _, _, err := conn.call(ctx, []byte(request)); err == nil || codeOf(err) != codeTimeout {
		t.Error(err)
	}
}

// The generator shares the machine with what it measures: a guarded operation
// costs it no allocation.
func TestCallsAllocateNothing(t *testing.T) {
	const grant = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" +
		`{"outcome":"reserved","token":"1234567"}`
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		answers := [][]byte{[]byte(grant), []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")}
		for i := 0; ; i++ {
			if _, err := c.Read(buf); err != nil { // a request is one segment
				return
			}
			_, _ = c.Write(answers[i%2])
		}
	}()
	op, err := Lifecycle([]string{"http://" + l.Addr().String()}, "default", 64)(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var failed error
	allocations := testing.AllocsPerRun(200, func() {
		if n, err := op(ctx); n != 1 || err != nil {
			failed = errors.Join(failed, err)
		}
	})
	if failed != nil || allocations >= 1 {
		t.Errorf("%v allocations, %v", allocations, failed)
	}
}

// What the nodes tell of themselves.
func TestServers(t *testing.T) {
	t.Parallel()
	node := func(id, leader string, start, cpu, mallocs *atomic.Int64) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Onced-Node", id)
			switch r.URL.Path {
			case "/v1/cluster":
				leads := "null"
				if leader != "" {
					leads = strconv.Quote(leader)
				}
				_, _ = w.Write([]byte(`{"leader":` + leads + `,"nodes":[{"id":"n9","httpAddress":"http://nine:1"}]}`))
			case "/metrics":
				if start == nil {
					_, _ = w.Write([]byte("# nothing\n"))
					return
				}
				_, _ = w.Write([]byte("process_start_time_seconds " + strconv.Itoa(int(start.Load())) + "\nprocess_cpu_seconds_total " +
					strconv.Itoa(int(cpu.Add(1))) + ".5\ngo_memstats_mallocs_total " + strconv.Itoa(int(mallocs.Add(1))) + "\n"))
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	var start, cpu, mallocs, otherStart, otherCPU, otherMallocs atomic.Int64
	start.Store(1000)
	otherStart.Store(1000) // in the same tick
	otherCPU.Store(500)
	a, b := node("n1", "n2", &start, &cpu, &mallocs), node("n2", "n2", &start, &cpu, &mallocs)
	c, d, e := node("n3", "n9", &otherStart, &otherCPU, &otherMallocs), node("n4", "", nil, nil, nil), node("n5", "n2", nil, nil, nil)
	for _, want := range []struct {
		from   []string
		leader string
	}{
		{[]string{a, b, e}, b},
		{[]string{"http://127.0.0.1:1", a, b}, b},
		{[]string{c}, "http://nine:1"},
		{[]string{d, a, b}, b},
		{[]string{d}, ""},
	} {
		got, err := Leader(t.Context(), want.from)
		if want.leader == "" {
			if err == nil || errors.Is(err, ErrNoAnswer) {
				t.Error(got, err)
			}
			continue
		}
		if err != nil || got[0] != want.leader {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	if _, err := Leader(t.Context(), []string{"http://127.0.0.1:1"}); !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
	if err := Answering(t.Context(), []string{"http://127.0.0.1:1"}); !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
	if err := Answering(t.Context(), []string{"http://127.0.0.1:1", a}); err != nil {
		t.Error(err)
	}
	of := CPUOfServers([]string{a, b, c})
	first, err := of()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "first", first.Seconds(), 504, 520) // a and b are one process
	if second, err := of(); err != nil || second-first != 2*time.Second {
		t.Errorf("%v, then %v, %v", first, second, err)
	}
	if _, err := CPUOfServers([]string{a, d})(); err == nil {
		t.Error("a node that does not tell is left out")
	}
}
