package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/cluster/peerpb"
)

// Every connection to the inter-node port opens with one byte that says what it
// carries, and a Hello. The hello keeps strangers, other clusters and wiped
// disks out of both; nothing else is read before it is accepted.
const (
	connRaft = 'R' // raft's own protocol follows; no reply
	connPeer = 'P' // a HelloReply, then Requests and Responses

	maxHello = 64 << 10
	maxFrame = 8 << 20
)

var errFrameTooLarge = errors.New("frame too large")

// appendFrame appends m to b behind its length.
func appendFrame(b []byte, m proto.Message, limit int) ([]byte, error) {
	size := proto.Size(m)
	if size > limit {
		return b, fmt.Errorf("%w: %d bytes, at most %d", errFrameTooLarge, size, limit)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
}

func readFrame(r io.Reader, m proto.Message, limit int) error {
	n, err := readFrameLen(r, limit)
	if err != nil {
		return err
	}
	return readFrameBody(r, n, m)
}

func readFrameLen(r io.Reader, limit int) (int, error) {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(h[:])
	if uint64(n) > uint64(limit) {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", errFrameTooLarge, n, limit)
	}
	return int(n), nil
}

// readFrameBody takes memory as the bytes come, not as the length claims.
func readFrameBody(r io.Reader, n int, m proto.Message) error {
	buf := bytes.NewBuffer(make([]byte, 0, min(n, 64<<10)))
	if _, err := io.CopyN(buf, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return proto.Unmarshal(buf.Bytes(), m)
}

// readHello reads how a connection opens. It reads not a byte more.
func readHello(c net.Conn) (kind byte, h *peerpb.Hello, err error) {
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return 0, nil, err
	}
	if b[0] != connRaft && b[0] != connPeer {
		return 0, nil, fmt.Errorf("first byte %q is neither %q nor %q", b[0], connRaft, connPeer)
	}
	h = &peerpb.Hello{}
	if err := readFrame(c, h, maxHello); err != nil {
		return 0, nil, fmt.Errorf("hello: %w", err)
	}
	return b[0], h, nil
}

// newHello gives what this node says when it connects to the node at addr.
func newHello(self identity, addr, version string) *peerpb.Hello {
	return &peerpb.Hello{
		ClusterId: self.ClusterID, NodeId: self.NodeID, Instance: self.Instance, Version: version,
		Initialised: self.Initialised, Members: memberPBs(self.Members), To: self.memberAt(addr),
	}
}

func (id identity) memberAt(addr string) string {
	for _, m := range id.Members {
		if m.Address == addr {
			return m.ID
		}
	}
	return ""
}

// helloRefusal is why a hello or its reply is not accepted. A fatal one will not go
// away by waiting.
type helloRefusal struct {
	sentence string
	fatal    bool
}

func refuse(format string, args ...any) *helloRefusal {
	return &helloRefusal{fmt.Sprintf(format, args...), false}
}

func refuseForGood(format string, args ...any) *helloRefusal {
	return &helloRefusal{fmt.Sprintf(format, args...), true}
}

// otherData is the refusal of a wiped or foreign disk under a known id: it has
// forgotten the votes and the entries that the id has acknowledged (R35).
func otherData(id string) *helloRefusal {
	return refuseForGood("%s was a member of this cluster with other data. Put the old disk back, or remove %[1]s and add the machine under a new id.", id)
}

// checkHello judges a caller; nil accepts it.
func checkHello(self identity, h *peerpb.Hello) *helloRefusal {
	switch {
	case !nodeIDPattern.MatchString(h.NodeId) || h.Instance == "":
		return refuse("the hello names no node")
	case h.To != "" && h.To != self.NodeID:
		return refuse("this is %s, not %s", self.NodeID, h.To)
	case h.ClusterId != "" && self.ClusterID != "" && h.ClusterId != self.ClusterID:
		return refuseForGood("%s belongs to cluster %s, %s to cluster %s", h.NodeId, h.ClusterId, self.NodeID, self.ClusterID)
	case h.NodeId == self.NodeID && h.Instance == self.Instance:
		return refuse("%s has reached itself", self.NodeID)
	case h.NodeId == self.NodeID:
		return refuseForGood("another node has the id %s", self.NodeID)
	}
	if self.Initialised {
		if known := self.Instances[h.NodeId]; known != "" && known != h.Instance {
			return otherData(h.NodeId)
		}
		if !self.isMember(h.NodeId) {
			return refuseForGood("%s is not a member of the cluster that %s is in", h.NodeId, self.NodeID)
		}
	}
	// After its first start a node's list is history: the log has the members.
	if !h.Initialised {
		if r := checkLists(self, h.NodeId, h.Members); r != nil {
			return r
		}
	}
	if !self.isMember(h.NodeId) {
		return refuseForGood("the cluster list of %s does not name %s", self.NodeID, h.NodeId)
	}
	return nil
}

func checkLists(self identity, id string, theirs []*peerpb.Member) *helloRefusal {
	if list := members(theirs); !slices.Equal(list, self.Members) {
		return refuseForGood("the cluster lists differ: %s has %s, %s has %s: make --cluster the same on all nodes",
			self.NodeID, memberList(self.Members), id, memberList(list))
	}
	return nil
}

// checkRaftHello judges a caller that wants to speak raft. Where raft has surely
// not run there is nothing to say, and nobody to answer.
func checkRaftHello(self identity, h *peerpb.Hello) *helloRefusal {
	if r := checkHello(self, h); r != nil {
		return r
	}
	if !self.Initialised {
		return refuse("%s has not started yet", self.NodeID)
	}
	if !h.Initialised {
		return refuse("%s has not started yet", h.NodeId)
	}
	return nil
}

// answerHello gives the reply to the hello of a P connection.
func answerHello(self identity, h *peerpb.Hello, now time.Time, version string) *peerpb.HelloReply {
	reply := &peerpb.HelloReply{
		ClusterId: self.ClusterID, NodeId: self.NodeID, Instance: self.Instance, Initialised: self.Initialised,
		Members: memberPBs(self.Members), WallUs: now.UnixMicro(), Version: version,
	}
	if self.Initialised {
		reply.KnownInstance = self.Instances[h.NodeId]
	}
	if r := checkHello(self, h); r != nil {
		reply.Refused, reply.Fatal = r.sentence, r.fatal
	}
	return reply
}

// checkReply judges whom this node has reached; want is empty when it does not
// matter. nil accepts it.
func checkReply(self identity, want string, r *peerpb.HelloReply) *helloRefusal {
	switch {
	case r.Refused != "":
		return &helloRefusal{r.Refused, r.Fatal}
	case r.NodeId == "" || r.Instance == "":
		return refuse("the reply names no node")
	case want != "" && r.NodeId != want:
		return refuse("this is %s, not %s", r.NodeId, want)
	case r.ClusterId != "" && self.ClusterID != "" && r.ClusterId != self.ClusterID:
		return refuseForGood("%s belongs to cluster %s, %s to cluster %s", r.NodeId, r.ClusterId, self.NodeID, self.ClusterID)
	}
	if known := self.Instances[r.NodeId]; self.Initialised && known != "" && known != r.Instance {
		return otherData(r.NodeId)
	}
	return nil
}

func memberPBs(ms []Member) []*peerpb.Member {
	out := make([]*peerpb.Member, len(ms))
	for i, m := range ms {
		out[i] = &peerpb.Member{Id: m.ID, Address: m.Address}
	}
	return out
}

func members(ms []*peerpb.Member) []Member {
	out := make([]Member, len(ms))
	for i, m := range ms {
		out[i] = Member{m.GetId(), m.GetAddress()}
	}
	return out
}

func memberList(ms []Member) string {
	s := make([]string, len(ms))
	for i, m := range ms {
		s[i] = m.ID + "=" + m.Address
	}
	return strings.Join(s, ",")
}
