package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// resp is one connection that speaks Redis' protocol, and no more of it than is
// measured: server and load share the cores, and a general client would take
// more of them than the server does.
type resp struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dialRESP(address string) (*resp, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &resp{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}, nil
}

// command adds one to what flush sends.
func (r *resp) command(args ...string) {
	r.out = append(r.out, '*')
	r.out = strconv.AppendInt(r.out, int64(len(args)), 10)
	for _, a := range args {
		r.out = append(r.out, "\r\n$"...)
		r.out = strconv.AppendInt(r.out, int64(len(a)), 10)
		r.out = append(r.out, "\r\n"...)
		r.out = append(r.out, a...)
	}
	r.out = append(r.out, "\r\n"...)
}

// flush sends the commands; the answers are then to be read within 10 s.
func (r *resp) flush(context.Context) error {
	err := r.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err == nil {
		_, err = r.conn.Write(r.out)
	}
	r.out = r.out[:0]
	return err
}

// errNil is the answer "there is none".
var errNil = errors.New("nil")

// reply reads one answer: a simple string, an integer or a bulk string.
func (r *resp) reply() (string, error) {
	line, err := r.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("not an answer: %q", line)
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", errors.New(text)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil {
			return "", err
		}
		if n < 0 {
			return "", errNil
		}
		body := make([]byte, n+2)
		for have := 0; have < len(body); {
			k, err := r.in.Read(body[have:])
			if err != nil {
				return "", err
			}
			have += k
		}
		return string(body[:n]), nil
	}
	return "", fmt.Errorf("an answer of kind %q", kind)
}

// call sends one command and gives its answer.
func (r *resp) call(ctx context.Context, args ...string) (string, error) {
	r.command(args...)
	if err := r.flush(ctx); err != nil {
		return "", err
	}
	return r.reply()
}
