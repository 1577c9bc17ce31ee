package fsm

import (
	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/btree"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// Machine is the replicated state: namespaces, records, nodes and the audit
// trail. It is not safe for concurrent use: the caller holds its lock for
// writing around Apply, View and FenceRestore, and for reading around
// everything else. Records, Namespaces and Views it hands out are immutable
// and outlive the lock.
type Machine struct {
	index     uint64
	now       Time
	lastToken uint64
	clusterID string

	// sum adds up the hashes of everything below (statehash.go).
	sum     uint64
	scratch []byte

	spaces   map[string]*space          // by name, retired ones too
	names    *btree.BTreeG[*Namespace]  // the same, in order, for views
	draining []*space                   // retired and not yet emptied, in name order
	store    *store                     // the records
	prints   *btree.BTreeG[fingerprint] // by (namespace, fingerprint)
	audit    *btree.BTreeG[auditItem]   // by sequence
	auditSeq uint64                     // the last one given out
	nodes    []*nodeState               // by id; replaced, never changed, so that views may share it
	ticks    []tick                     // the last ticksKept ones, oldest first
	diverged *divergence                // set once
	tokens   uint64                     // mutant tokencounter
}

// maxTime is the end of the year 9999: later stamps count as it, so that no
// sum of times overflows.
const maxTime Time = 253_402_300_799_999_999

// New gives the machine before the first log entry: namespace "default" under
// preset strict, version 1, created at 0, and nothing else.
func New() *Machine {
	m := newEmpty()
	policy, _ := Preset("strict")
	m.putNamespace(&Namespace{Name: DefaultNamespace, Version: 1, Policy: policy})
	return m
}

func newEmpty() *Machine {
	return &Machine{
		spaces: make(map[string]*space),
		names:  newTree(func(a, b *Namespace) bool { return a.Name < b.Name }),
		store:  newStore(),
		prints: newTree(byFingerprint),
		audit:  newTree(func(a, b auditItem) bool { return a.entry.Sequence < b.entry.Sequence }),
	}
}

// newTree makes a tree without locks: the caller of the machine holds its own.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// Apply decides the commands of the entry at index, in order, at one time:
// the entry's stamp or the last log time, whichever is later. It gives one
// Result a command and never panics on content. It keeps references into e,
// which nobody may change afterwards.
func (m *Machine) Apply(index uint64, e *Entry) []Result {
	m.index = index
	m.now = max(m.now, min(Time(e.GetTimeUs()), maxTime))
	if mutant == "wallclock" {
		m.now = mutantNow()
	}
	commands := e.GetCommands()
	results := make([]Result, len(commands))
	ticked := false
	for i, c := range commands {
		results[i] = m.apply(c)
		ticked = ticked || c.GetOp() == fsmpb.Op_OP_TICK
	}
	if ticked {
		m.recordTick()
	}
	m.store.tidy()
	return results
}

func (m *Machine) apply(c *Command) Result {
	if c == nil {
		return refuse(idem.CodeInvalidRequest, "the command is empty")
	}
	switch c.Op {
	case fsmpb.Op_OP_RESERVE, fsmpb.Op_OP_COMMIT, fsmpb.Op_OP_FAIL, fsmpb.Op_OP_RELEASE,
		fsmpb.Op_OP_EXTEND, fsmpb.Op_OP_CANCEL, fsmpb.Op_OP_RESOLVE:
		return m.applyKey(c)
	}
	if late(c, m.now) {
		return refuseLate()
	}
	switch c.Op {
	case fsmpb.Op_OP_NAMESPACE_PUT:
		return m.namespacePut(c)
	case fsmpb.Op_OP_NAMESPACE_DELETE:
		return m.namespaceDelete(c)
	case fsmpb.Op_OP_NODE_INFO:
		return m.nodeInfo(c)
	case fsmpb.Op_OP_SWEEP:
		return m.sweep(c)
	case fsmpb.Op_OP_TICK:
		return m.tick(c)
	case fsmpb.Op_OP_REPLAYS:
		return m.countReplays(c)
	case fsmpb.Op_OP_INIT:
		return m.initCluster(c)
	}
	return refuse(idem.CodeInvalidRequest, "op: unknown operation")
}

// applyKey decides a command on one key, after what comes before all rows of
// semantics.md section 3: the namespace, the form, the deadline.
func (m *Machine) applyKey(c *Command) Result {
	sp, ok := m.spaces[c.Namespace]
	switch {
	case !ok:
		return refuse(idem.CodeNamespaceNotFound, "")
	case sp.ns.Retired:
		return refuse(idem.CodeNamespaceRetired, "the namespace was deleted; its name is not given out again")
	case c.Key == "" && (c.Op != fsmpb.Op_OP_RESERVE || c.Fingerprint == ""):
		return refuse(idem.CodeKeyMissing, "")
	case late(c, m.now):
		return refuseLate()
	}
	switch c.Op {
	case fsmpb.Op_OP_RESERVE:
		return m.reserve(sp, c)
	case fsmpb.Op_OP_CANCEL:
		return m.cancel(sp, c)
	}
	if c.Token == 0 {
		return refuse(idem.CodeTokenMissing, "")
	}
	r := m.get(sp, c.Key)
	switch {
	case r == nil:
		return refuse(idem.CodeNotFound, "")
	case r.Token != c.Token && (mutant != "anytoken" || c.Op == fsmpb.Op_OP_RESOLVE) && (mutant != "resolveany" || c.Op != fsmpb.Op_OP_RESOLVE):
		return refuseWith(idem.CodeStaleToken, "another attempt holds the key, or it was never claimed", r)
	}
	switch c.Op {
	case fsmpb.Op_OP_COMMIT:
		return m.settle(sp, r, c, Committed)
	case fsmpb.Op_OP_FAIL:
		return m.settle(sp, r, c, Failed)
	case fsmpb.Op_OP_RELEASE:
		return m.release(sp, r, c)
	case fsmpb.Op_OP_EXTEND:
		return m.extend(sp, r, c)
	}
	return m.resolve(sp, r, c)
}

// initCluster names the cluster, once and for ever.
func (m *Machine) initCluster(c *Command) Result {
	switch {
	case c.ClusterId == "":
		return refuse(idem.CodeInvalidRequest, "clusterId: is empty")
	case m.clusterID == "":
		m.clusterID = c.ClusterId
		return Result{Outcome: OutcomeDone, Changed: true}
	case m.clusterID != c.ClusterId:
		return refuse(idem.CodeInvalidRequest, "clusterId: the cluster has another id")
	}
	return Result{Outcome: OutcomeDone}
}

// nextToken gives a token above every one before it. Log time in it keeps it
// rising even where the counter was set back by an older backup (semantics.md
// section 1).
func (m *Machine) nextToken() uint64 {
	m.lastToken = max(m.lastToken+1, uint64(m.now))
	if mutant == "tokencounter" {
		m.tokens++
		m.lastToken = m.tokens
	}
	return m.lastToken
}

// Index is the log index of the last applied entry.
func (m *Machine) Index() uint64 { return m.index }

// Now is the log time of the last applied entry.
func (m *Machine) Now() Time { return m.now }

// ClusterID is the id set by the first OP_INIT, "" before it.
func (m *Machine) ClusterID() string { return m.clusterID }

// LastToken is the highest token given out.
func (m *Machine) LastToken() uint64 { return m.lastToken }

// StateHash is a function of the state alone: equal on every node that has
// applied the same entries.
func (m *Machine) StateHash() uint64 {
	var room [128]byte
	b := append(room[:0], 'M')
	b = appendUint(b, m.sum)
	b = appendUint(b, m.index)
	b = appendUint(b, uint64(m.now))
	b = appendUint(b, m.lastToken)
	b = appendUint(b, m.auditSeq)
	b = appendString(b, m.clusterID)
	return xxhash.Sum64(b)
}
