package fsm

import (
	"fmt"
	"hash/crc32"

	"github.com/tidwall/btree"
)

// A snapshot is the magic, the format version, and frames. A frame is the
// length of its payload (4 bytes, big-endian), its kind (1 byte), the payload
// (a protobuf message), and the CRC32C of all that. The header comes first;
// then each kind in the order of the constants below, sorted within; the
// trailer comes last, with the counts and the SHA-256 of every byte before it;
// then the end. The same state gives the same bytes on every node.
const (
	snapshotMagic   = "oncedSNAP"
	snapshotVersion = 2 // 2: replays are hashed apart from their records

	frameHead = 4 + 1
	frameTail = crc32.Size
	// frameMax bounds what a damaged length can make a reader allocate.
	frameMax = 16 << 20
)

type frameKind byte

const (
	frameHeader frameKind = iota + 1
	frameNamespace
	frameNode
	frameRecord
	frameFingerprint
	frameAudit
	frameTrailer
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: snapshot: "+format, append([]any{ErrDamaged}, args...)...)
}

// View is the state at one index, frozen: good without the machine's lock, at
// the same time as Apply, from one goroutine at a time.
type View struct {
	index     uint64
	now       Time
	lastToken uint64
	clusterID string
	stateHash uint64
	auditSeq  uint64
	lastTick  tick

	names   *btree.BTreeG[*Namespace]
	records *btree.BTreeG[ref] // to be scanned only: its order looks into the machine
	places  chunks[place]
	tallies chunks[tally]
	list    [][]byte // the pages of its places
	spaces  []string // the names of its records' namespaces
	prints  *btree.BTreeG[fingerprint]
	audit   *btree.BTreeG[auditItem]
	nodes   []*nodeState
}

// View freezes the present state, in a time that does not grow with it. The
// caller holds the machine's lock for writing: the trees note that their nodes
// are shared from now on.
func (m *Machine) View() *View {
	v := &View{
		index: m.index, now: m.now, lastToken: m.lastToken, clusterID: m.clusterID,
		stateHash: m.StateHash(), auditSeq: m.auditSeq,
		names: m.names.Copy(), records: m.store.records.Copy(), prints: m.prints.Copy(),
		audit: m.audit.Copy(), nodes: m.nodes,
		places: m.store.places.freeze(), tallies: m.store.tallies.freeze(),
		list: m.store.freeze(), spaces: m.store.names,
	}
	if mutant == "nocopy" {
		v.records = m.store.records
	}
	v.lastTick.index, v.lastTick.hash = m.LastTick()
	return v
}

// Index is the log index that the view was taken at.
func (v *View) Index() uint64 { return v.index }

// StateHash is the machine's at that index.
func (v *View) StateHash() uint64 { return v.stateHash }
