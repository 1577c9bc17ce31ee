package cluster

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/onced/onced/cluster/peerpb"
)

// bodyTimeout bounds the rest of a request whose length has come.
const bodyTimeout = 10 * time.Second

// servePeer answers the requests of one accepted P connection until it ends.
func (n *network) servePeer(c *trackedConn, from string) {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	s := &peerSession{n: n, conn: c, from: from}
	defer c.Close()
	if err := s.read(ctx); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		n.log.Debug("peer connection ended", "from", from, "error", err)
	}
}

// peerSession is one accepted P connection.
type peerSession struct {
	n    *network
	conn *trackedConn
	from string

	writeMu sync.Mutex // guards writes to conn
}

func (s *peerSession) read(ctx context.Context) error {
	r := bufio.NewReader(s.conn)
	for {
		size, err := readFrameLen(r, maxFrame)
		if err != nil {
			return err
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(bodyTimeout))
		req := &peerpb.Request{}
		if err := readFrameBody(r, size, req); err != nil {
			return err
		}
		_ = s.conn.SetReadDeadline(time.Time{})
		select {
		case s.n.served <- struct{}{}:
		default:
			s.write(req.Id, refusalOf(peerpb.Refusal_OVERLOADED, "too many requests from other nodes"))
			continue
		}
		if !s.n.start(func() {
			defer func() { <-s.n.served }()
			s.write(req.Id, s.answer(ctx, req))
		}) {
			<-s.n.served
			return net.ErrClosed
		}
	}
}

func (s *peerSession) answer(ctx context.Context, req *peerpb.Request) *peerpb.Response {
	if req.GetBody() == nil {
		return refusalOf(peerpb.Refusal_REASON_UNSPECIFIED, "this version does not know the request")
	}
	h := s.n.handler.Load()
	if h == nil {
		return refusalOf(peerpb.Refusal_NOT_READY, "this node is starting")
	}
	if resp := (*h)(ctx, s.from, req); resp != nil {
		return resp
	}
	return unknownOf("the request has no answer")
}

// write sends an answer, or ends the connection: an answer that is only left
// out would be waited for.
func (s *peerSession) write(id uint64, resp *peerpb.Response) {
	b, err := appendFrame(nil, &peerpb.Response{Id: id, Body: resp.GetBody()}, maxFrame)
	if err != nil {
		b, err = appendFrame(nil, &peerpb.Response{Id: id, Body: unknownOf("the answer is too large").Body}, maxFrame)
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if err == nil {
		_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err = s.conn.Write(b)
	}
	if err != nil {
		_ = s.conn.Close()
	}
}

func refusalOf(reason peerpb.Refusal_Reason, detail string) *peerpb.Response {
	return &peerpb.Response{Body: &peerpb.Response_Refusal{Refusal: &peerpb.Refusal{Reason: reason, Detail: detail}}}
}

func unknownOf(detail string) *peerpb.Response {
	return &peerpb.Response{Body: &peerpb.Response_Unknown{Unknown: &peerpb.Unknown{Detail: detail}}}
}
