package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/onced/onced/idem"
)

const (
	// callTime is how long one call may take, and at most a second more: a node
	// answers within its --request-timeout, 5 s unless it was told otherwise.
	callTime = 15 * time.Second
	// idleTime is how long a connection may lie idle before it is made anew. A
	// node closes one after 60 s.
	idleTime = 30 * time.Second
	// dialPause comes before a client may go on when no address took a
	// connection, or two calls in a row lost theirs: a server that is down must
	// not be met by a loop that eats the machine.
	dialPause = 50 * time.Millisecond

	connBuffer = 16 << 10
	// maxReply bounds what is read of one answer.
	maxReply = 64 << 20
)

// conn is one keep-alive HTTP/1.1 connection, for requests that are whole and
// ready and answers that have a Content-Length, as all of onced have. It knows
// no redirects, no chunks and no trailers; what it cannot read ends the
// connection and is an error. It is for one goroutine.
//
// A connection that fails is not made again for the same call: a call is sent
// once. The next call connects to the next address.
type conn struct {
	addresses []string // host:port
	at        int      // the one in use, or to try first

	c        net.Conn
	r        *bufio.Reader
	body     []byte    // of an answer that is larger than r
	used     time.Time // when the last call began
	deadline time.Time
	unbind   func() bool // takes the end of the context off c
	lost     int         // calls in a row that lost their connection
}

func newConn(addresses []string, first int) *conn {
	return &conn{addresses: addresses, at: first % len(addresses)}
}

// call sends request and gives the answer. The body is good until the next call.
// The context of the call that connects is that of the connection: when it ends,
// so do the calls.
func (c *conn) call(ctx context.Context, request []byte) (status int, body []byte, err error) {
	now := time.Now()
	if c.c != nil && now.Sub(c.used) > idleTime {
		c.close()
	}
	if c.c == nil {
		if err := c.dial(ctx); err != nil {
			return 0, nil, err
		}
		now = time.Now()
	}
	c.used = now
	if c.deadline.Sub(now) < callTime { // once a second, not at each call
		c.deadline = now.Add(callTime + time.Second)
		_ = c.c.SetDeadline(c.deadline)
		if ctx.Err() != nil {
			_ = c.c.SetDeadline(now)
		}
	}
	if _, err = c.c.Write(request); err == nil {
		var last bool
		if status, body, last, err = c.read(); err == nil {
			c.lost = 0
			if last {
				c.close()
			}
			return status, body, nil
		}
	}
	c.close()
	c.at = (c.at + 1) % len(c.addresses)
	if c.lost++; c.lost > 1 {
		pause(ctx)
	}
	return 0, nil, asFailure(err)
}

// dial connects to the first address, from the last one on, that takes it.
func (c *conn) dial(ctx context.Context) (err error) {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	for range c.addresses {
		var nc net.Conn
		if nc, err = dialer.DialContext(ctx, "tcp", c.addresses[c.at]); err == nil {
			c.c, c.deadline = nc, time.Time{}
			if c.r == nil {
				c.r = bufio.NewReaderSize(nc, connBuffer)
			} else {
				c.r.Reset(nc)
			}
			c.unbind = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
			return nil
		}
		c.at = (c.at + 1) % len(c.addresses)
	}
	pause(ctx)
	return &failure{codeNoConnection, err}
}

func pause(ctx context.Context) {
	t := time.NewTimer(dialPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *conn) close() {
	if c.c != nil {
		c.unbind()
		_ = c.c.Close()
		c.c = nil
	}
}

var errNotHTTP = &failure{codeBadAnswer, errors.New("the answer is not one of HTTP/1.1 with a Content-Length")}

// read reads one answer; last tells that the server closes the connection after
// it.
func (c *conn) read() (status int, body []byte, last bool, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, false, err
	}
	// HTTP/1.1 200 OK
	if len(line) < 13 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, nil, false, errNotHTTP
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil || status < 200 {
		return 0, nil, false, errNotHTTP
	}
	length := -1
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, nil, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		// Only the two headers that tell where the answer ends are looked at.
		switch line[0] | 0x20 {
		case 'c':
			name, value, _ := bytes.Cut(line, []byte(":"))
			switch {
			case bytes.EqualFold(name, []byte("Content-Length")):
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 || length > maxReply {
					return 0, nil, false, errNotHTTP
				}
			case bytes.EqualFold(name, []byte("Connection")):
				last = bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
			}
		case 't':
			if name, _, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Transfer-Encoding")) {
				return 0, nil, false, errNotHTTP
			}
		}
	}
	switch {
	case length < 0:
		return 0, nil, false, errNotHTTP
	case length <= c.r.Size():
		if body, err = c.r.Peek(length); err == nil {
			_, err = c.r.Discard(length) // the bytes stay until the next read
		}
	default:
		if cap(c.body) < length {
			c.body = make([]byte, length)
		}
		body = c.body[:length]
		_, err = io.ReadFull(c.r, body)
	}
	return status, body, last, err
}

// The codes of calls that got no answer.
const (
	codeNoConnection = "no_connection"
	codeLost         = "connection_lost"
	codeTimeout      = "timeout"
	codeBadAnswer    = "bad_answer"
)

// failure is a call without an answer that can be read.
type failure struct {
	code string
	err  error
}

func (f *failure) Error() string { return f.code + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Code names the failure in the figures.
func (f *failure) Code() string { return f.code }

func asFailure(err error) error {
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &failure{codeTimeout, err}
	}
	return &failure{codeLost, err}
}

// refusal is the code of an answer that is not a success.
type refusal string

func (r refusal) Error() string { return "the answer was " + string(r) }

// Code names the refusal in the figures.
func (r refusal) Code() string { return string(r) }

// refused gives the code that a problem's body names; of another body, the
// status.
func refused(status int, body []byte) error {
	code := member(body, `"code":"`)
	switch {
	case string(code) == string(idem.CodeInFlight):
		return errInFlight // the one that a storm is full of
	case len(code) > 0 && len(code) <= 64:
		return refusal(code)
	}
	return refusal("http_" + strconv.Itoa(status))
}

var errInFlight error = refusal(idem.CodeInFlight)

// member gives the text between what begins it, such as `"token":"`, and the
// next quotation mark; nil when it is not there. Codes and tokens hold no
// escapes.
func member(body []byte, begin string) []byte {
	i := bytes.Index(body, []byte(begin))
	if i < 0 {
		return nil
	}
	rest := body[i+len(begin):]
	if end := bytes.IndexByte(rest, '"'); end >= 0 {
		return rest[:end]
	}
	return nil
}
