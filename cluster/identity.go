package cluster

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Names inside the data directory.
const (
	identityFile = "identity.json"
	raftFile     = "raft.db"
	walDir       = "wal" // with --log-store wal
	lockFile     = "LOCK"
	snapshotsDir = "snapshots"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is who this node is, kept outside raft.db: an empty raft.db must not
// pass for a new node (raft-traps 0.9), nor a wiped disk for the old one.
type identity struct {
	ClusterID string `json:"clusterId"` // empty until the first log entry told it
	NodeID    string `json:"nodeId"`
	// Instance is random and made with the data directory: the same node id
	// with another instance is another disk.
	Instance string `json:"instance"`
	// Initialised tells that raft may have run here. While it is false, this
	// id and instance have surely never voted.
	Initialised bool     `json:"initialised"`
	Members     []Member `json:"members"`
	// LogStore is where the log was put at the first start; empty: bolt.
	LogStore string `json:"logStore,omitzero"`
	// Instances is the instance by which each node id is known, self included.
	Instances map[string]string `json:"instances"`
}

func (id identity) clone() identity {
	id.Members = slices.Clone(id.Members)
	id.Instances = maps.Clone(id.Instances)
	if id.Instances == nil {
		id.Instances = map[string]string{}
	}
	return id
}

func (id identity) isMember(nodeID string) bool {
	return slices.ContainsFunc(id.Members, func(m Member) bool { return m.ID == nodeID })
}

// identityDoc is identity.json. A damaged one must not be believed: a node that
// forgets an instance would let a wiped disk vote.
type identityDoc struct {
	Format   int            `json:"format"`
	Identity jsontext.Value `json:"identity"`
	CRC32C   string         `json:"crc32c"` // of the identity member, compacted
}

const identityFormat = 1

// identityStore keeps the identity, in memory and in its file.
type identityStore struct {
	path string // empty: in memory only

	identityMu sync.Mutex // guards current, and the order of writes
	current    identity
}

// openIdentity reads the identity of dir, or makes one on the first start:
// a random instance, not initialised. With dir empty it lives in memory. It must
// come before openStorage: data without an identity is refused.
func openIdentity(dir, nodeID, logStore string, members []Member, rand io.Reader) (*identityStore, error) {
	fresh := func() (identity, error) {
		var b [16]byte
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return identity{}, fmt.Errorf("cluster: no randomness for the instance: %w", err)
		}
		instance := hex.EncodeToString(b[:])
		return identity{
			NodeID: nodeID, Instance: instance, Members: slices.Clone(members), LogStore: logStore,
			Instances: map[string]string{nodeID: instance},
		}, nil
	}
	if dir == "" {
		id, err := fresh()
		return &identityStore{current: id}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, refusef("data directory %s cannot be made: %w", dir, err)
	}
	s := &identityStore{path: filepath.Join(dir, identityFile)}
	id, err := readIdentity(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		// Two processes that start at once must not both make one.
		unlock, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		defer unlock()
		return s, s.create(dir, fresh)
	}
	if err != nil {
		return nil, refusef("%s is damaged (%w): put a good copy back, or remove this node and add the machine under a new id", s.path, err)
	}
	if id.NodeID != nodeID {
		return nil, refusef("data directory %s belongs to node %s, not to %s: use its own directory, or set --node-id %s", dir, id.NodeID, nodeID, id.NodeID)
	}
	if has, want := cmp.Or(id.LogStore, LogStoreBolt), cmp.Or(logStore, LogStoreBolt); has != want {
		return nil, refusef("data directory %s was made with --log-store %s, and cannot be read with --log-store %s: set --log-store %[2]s", dir, has, want)
	}
	s.current = id
	alone := len(id.Members) == 1 && len(members) == 1 // nobody else has its address
	if id.Initialised && !alone && !slices.Equal(id.Members, members) {
		return nil, refusef("the cluster list is %s, but %s was first started with %s: give it the same list, members cannot be changed yet",
			memberList(members), nodeID, memberList(id.Members))
	}
	if !slices.Equal(id.Members, members) {
		// The list may be put right as long as nobody built on it.
		return s, s.update(func(id *identity) { id.Members = slices.Clone(members) })
	}
	return s, nil
}

func (s *identityStore) create(dir string, fresh func() (identity, error)) error {
	if id, err := readIdentity(s.path); err == nil {
		return refusef("data directory %s is just being set up by another process, as node %s", dir, id.NodeID)
	}
	for _, name := range []string{raftFile, walDir, snapshotsDir} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return refusef("data directory %s holds %s but no %s: put the old %[3]s back, or remove this node and add the machine under a new id", dir, name, identityFile)
		}
	}
	id, err := fresh()
	if err != nil {
		return err
	}
	if err := writeIdentity(s.path, id); err != nil {
		return refusef("%s cannot be written: %w", s.path, err)
	}
	s.current = id
	return nil
}

// get gives a copy of the identity.
func (s *identityStore) get() identity {
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	return s.current.clone()
}

// update changes the identity. It is durable before update returns; on an error
// nothing has changed. When f changes nothing, nothing is written.
func (s *identityStore) update(f func(*identity)) error {
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	next := s.current.clone()
	f(&next)
	if reflect.DeepEqual(next.clone(), s.current.clone()) {
		return nil
	}
	if s.path != "" {
		if err := writeIdentity(s.path, next); err != nil {
			return fmt.Errorf("cluster: %s cannot be written: %w", s.path, err)
		}
	}
	s.current = next.clone()
	return nil
}

func readIdentity(path string) (identity, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return identity{}, err
	}
	var doc identityDoc
	if err := json.Unmarshal(b, &doc, json.RejectUnknownMembers(true)); err != nil {
		return identity{}, fmt.Errorf("not an identity: %w", err)
	}
	if doc.Format != identityFormat {
		return identity{}, fmt.Errorf("format %d is not known to this version", doc.Format)
	}
	if err := doc.Identity.Compact(); err != nil {
		return identity{}, fmt.Errorf("not an identity: %w", err)
	}
	if sum := identitySum(doc.Identity); sum != doc.CRC32C {
		return identity{}, fmt.Errorf("checksum %s, expected %q", sum, doc.CRC32C)
	}
	var id identity
	if err := json.Unmarshal(doc.Identity, &id, json.RejectUnknownMembers(true)); err != nil {
		return identity{}, fmt.Errorf("not an identity: %w", err)
	}
	if id.NodeID == "" || id.Instance == "" {
		return identity{}, errors.New("no node id or instance in it")
	}
	return id.clone(), nil
}

func identitySum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// writeIdentity replaces the file as a whole: new file, fsync, rename, fsync of
// the directory. Without the last a power cut could bring the old one back.
func writeIdentity(path string, id identity) error {
	inner, err := json.Marshal(id, json.Deterministic(true))
	if err != nil {
		return err
	}
	b, err := json.Marshal(identityDoc{identityFormat, inner, identitySum(inner)}, jsontext.Multiline(true))
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(path, append(b, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockDir takes the lock of a data directory, which ends with the process.
func lockDir(dir string) (unlock func() error, err error) {
	l := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, refusef("data directory %s cannot be locked: %w", dir, err)
	}
	if !ok {
		return nil, refusef("data directory %s is in use by another process", dir)
	}
	return l.Close, nil
}
