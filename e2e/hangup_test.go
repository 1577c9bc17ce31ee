package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// request is an operation as it goes over a bare socket.
func request(ns, op string, m map[string]any) string {
	text := toJSON(m)
	return head("POST", "/v1/namespaces/"+ns+"/"+op, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(text))) + text
}

// readAnswer reads what a bare socket has to say within 20 s.
func readAnswer(conn net.Conn) *answer {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header}
	a.raw, _ = io.ReadAll(res.Body)
	a.read()
	return a
}

// hangUp closes a connection at once, so that its peer may see a reset.
func hangUp(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// TestB48_HangUp: a caller that hangs up right after it sent its commit loses
// nothing; one that hangs up on a reserve finds its claim again by its
// attemptId, on another node and under another leader.
func TestB48_HangUp(t *testing.T) {
	t.Parallel()
	c := startTrio(t)
	c.commits(t)
	for round := range 2 {
		c.reserves(t, round)
	}
	c.settledState(0, 1, 2)
}

func (c *trio) commits(t *testing.T) {
	const many = 300
	key := func(k int) string { return fmt.Sprintf("hung-commit-%04d", k) }
	var tokens [many]string
	var items []map[string]any
	for k := range many {
		items = append(items, map[string]any{"op": "reserve", "key": key(k), "lease": "10m"})
	}
	for k, a := range c.batch(0, "default", items) {
		tokens[k] = a.Token
	}
	c.settledState(0, 1, 2)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for k := worker; k < many; k += 8 {
				conn := c.raw(k%3, request("default", "commit", map[string]any{"key": key(k), "token": tokens[k], "response": k}))
				if k%2 == 0 {
					hangUp(conn)
				} else {
					conn.Close()
				}
			}
		})
	}
	group.Wait()
	states := map[string]int{}
	for k := range many {
		r := c.look(k%3, "default", key(k), "local")
		if r == nil {
			t.Errorf("%s is gone", key(k))
			continue
		}
		states[r.Status]++
	}
	var seen unsettled
	for k := range many {
		a := c.until(t, k+1, "commit", map[string]any{"key": key(k), "token": tokens[k], "response": k}, &seen)
		if a.status != 200 || a.Record.Attempt != 1 || a.Record.Token != tokens[k] || string(a.Record.Response) != strconv.Itoa(k) {
			t.Errorf("the commit of %s, again: %s", key(k), a)
		}
		states["header "+a.header.Get("Idempotent-Replayed")]++
	}
	t.Logf("%d commits hung up on; looked at, at once, and the commits sent again: %v", many, states)
	if states["pending"]+states["committed"] != many {
		t.Errorf("neither committed nor untouched: %v", states)
	}
}

// reserves hangs up on reserves in three ways, changes the leader and asks
// again elsewhere.
func (c *trio) reserves(t *testing.T, round int) {
	const many = 60
	key := func(k int) string { return fmt.Sprintf("hung-reserve-%d-%04d", round, k) }
	attempt := func(k int) string { return fmt.Sprintf("attempt-%d-%010d", round, k) }
	ask := func(k int) map[string]any {
		return map[string]any{"key": key(k), "attemptId": attempt(k), "request": k, "lease": "10m"}
	}
	leader := c.leader()
	before := map[int]string{} // tokens of claims that are there, though nobody was told
	for k := range many {
		conn := c.raw(k%3, request("default", "reserve", ask(k)))
		if k%3 == 2 || k%4 == 0 { // decided, and its answer never read
			eventually(t, key(k)+" is claimed", func() bool { return c.look(leader, "default", key(k), "local") != nil })
		}
		if k%2 == 0 {
			hangUp(conn)
		} else {
			conn.Close()
		}
	}
	for k := range many {
		if r := c.record(leader, "default", key(k)); r != nil {
			before[k] = r.Token
		}
	}
	if round == 0 {
		c.proc[leader].kill()
	} else {
		c.proc[leader].signal(syscall.SIGSTOP)
		defer c.proc[leader].signal(syscall.SIGCONT)
	}
	same := 0
	for k := range many {
		var seen unsettled
		node := (leader + 1 + k%2) % 3
		var a *answer
		for a == nil || a.status == 0 || a.status == 503 {
			a = c.call(node, "default", "reserve", ask(k), "Onced-Timeout", "2s")
		}
		switch token, there := before[k]; {
		case a.status != 201 || a.Attempt != 1 || a.AttemptID != attempt(k):
			t.Errorf("%s asked again: %s, %v", key(k), a, &seen)
		case there && (a.Token != token || !*a.Resumed):
			t.Errorf("%s asked again got token %s, its claim had %s", key(k), a.Token, token)
		case there:
			same++
		}
		// Another attempt finds it held, whoever held it first.
		if a := c.call((leader+1)%3, "default", "reserve", map[string]any{"key": key(k), "attemptId": "another-attempt-0001", "request": k}); a.status != 409 {
			t.Errorf("another attempt at %s: %s", key(k), a)
		}
	}
	t.Logf("%d reserves hung up on, %d were decided; asked again under another leader, %d got the same token", many, len(before), same)
	if len(before) == 0 {
		t.Error("no reserve was decided before its caller hung up: nothing was shown")
	}
	if round == 0 {
		c.start(leader)
	} else {
		c.proc[leader].signal(syscall.SIGCONT)
	}
	c.awaitReady(leader)
}
