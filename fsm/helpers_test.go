package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

const (
	t0    Time = 1_800_000_000_000_000
	aHash      = "sha256-aaaa"
	bHash      = "sha256-bbbb"
	key1       = "order-00000001"
)

// keyBorn is a UUIDv7 that was born at t, to the millisecond.
func keyBorn(t Time, n int) string {
	ms := int64(t) / 1000
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n)
}

// rig drives a machine as a log does: every entry goes through the codec.
type rig struct {
	tb  testing.TB
	m   *Machine
	now Time
}

func newRig(tb testing.TB) *rig {
	return &rig{tb: tb, m: New(), now: t0}
}

// crowd makes pages so small that packing up happens all the time; some twenty
// records share one.
func (g *rig) crowd() *rig {
	g.m.store.size, g.m.store.slack = 4096, 512
	return g
}

func (g *rig) pass(d time.Duration) *rig { g.now = g.now.Add(d); return g }

func (g *rig) entry(commands ...*Command) []Result {
	g.tb.Helper()
	b, err := EncodeEntry(&Entry{TimeUs: int64(g.now), Commands: commands})
	if err != nil {
		g.tb.Fatal(err)
	}
	e, err := DecodeEntry(b)
	if err != nil {
		g.tb.Fatal(err)
	}
	return g.m.Apply(g.m.Index()+1, e)
}

func (g *rig) do(c *Command) Result {
	g.tb.Helper()
	return g.entry(c)[0]
}

// must is do for a command that is not refused.
func (g *rig) must(c *Command) Result {
	g.tb.Helper()
	res := g.do(c)
	if res.Code != "" {
		g.tb.Fatalf("%v %s: refused: %s %s", c.Op, c.Key, res.Code, res.Detail)
	}
	return res
}

// refused is do for a command that must be refused with code.
func (g *rig) refused(code idem.Code, c *Command) Result {
	g.tb.Helper()
	res := g.do(c)
	if res.Code != code {
		g.tb.Fatalf("%v %s: got %q (outcome %v), want refused %q", c.Op, c.Key, res.Code, res.Outcome, code)
	}
	return res
}

func (g *rig) rec(key string) *Record {
	g.tb.Helper()
	r, ok := g.m.Record("default", key)
	if !ok {
		g.tb.Fatalf("no record %s", key)
	}
	return r
}

func (g *rig) namespace(name string, patch *fsmpb.PolicyPatch) {
	g.tb.Helper()
	g.must(&Command{Op: fsmpb.Op_OP_NAMESPACE_PUT, Namespace: name, Policy: patch})
}

func reserve(key, attempt string) *Command {
	return &Command{Op: fsmpb.Op_OP_RESERVE, Namespace: "default", Key: key, AttemptId: attempt, RequestDigest: aHash, Operation: "pay"}
}

func trade(text, attempt string) *Command {
	c := reserve("", attempt)
	c.Fingerprint = text
	return c
}

func holder(op fsmpb.Op, key string, token uint64) *Command {
	return &Command{Op: op, Namespace: "default", Key: key, Token: token}
}

func commit(key string, token uint64, digest string) *Command {
	c := holder(fsmpb.Op_OP_COMMIT, key, token)
	c.OutcomeDigest, c.HasResponse, c.Response = digest, true, []byte(`{"id":"`+digest+`"}`)
	return c
}

func fail(key string, token uint64, digest string) *Command {
	c := holder(fsmpb.Op_OP_FAIL, key, token)
	c.OutcomeDigest, c.ErrorCode = digest, "declined"
	return c
}

func release(key string, token uint64) *Command {
	return holder(fsmpb.Op_OP_RELEASE, key, token)
}

func extend(key string, token uint64) *Command {
	return holder(fsmpb.Op_OP_EXTEND, key, token)
}

func resolve(key string, token uint64, v fsmpb.Verdict) *Command {
	c := holder(fsmpb.Op_OP_RESOLVE, key, token)
	c.Verdict, c.Reason, c.Actor = v, "looked at the exchange", "ann"
	return c
}

func cancel(key string) *Command {
	return &Command{Op: fsmpb.Op_OP_CANCEL, Namespace: "default", Key: key, Reason: "withdrawn"}
}

func sweep(limit uint32) *Command { return &Command{Op: fsmpb.Op_OP_SWEEP, Limit: limit} }

func rerunBoth() *fsmpb.PolicyPatch {
	return &fsmpb.PolicyPatch{RerunOnLeaseExpiry: proto.Bool(true), RerunOnExpired: proto.Bool(true)}
}

func rerunNone() *fsmpb.PolicyPatch {
	return &fsmpb.PolicyPatch{RerunOnLeaseExpiry: proto.Bool(false), RerunOnExpired: proto.Bool(false)}
}

func snapshotOf(tb testing.TB, m *Machine) []byte {
	tb.Helper()
	var b bytes.Buffer
	n, err := m.View().WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		tb.Fatalf("WriteTo: %d of %d bytes, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func restored(tb testing.TB, b []byte) *Machine {
	tb.Helper()
	m, err := ReadSnapshot(bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// audit checks everything that is kept twice against what it is kept of.
func audit(tb testing.TB, m *Machine) {
	tb.Helper()
	var sum uint64
	type counts struct{ records, bytes int64 }
	want := map[string]*counts{}
	m.names.Scan(func(ns *Namespace) bool {
		sum += hashOf(appendNamespace(nil, ns))
		want[ns.Name] = &counts{}
		return true
	})
	s := m.store
	held := [3]int{}
	live := map[int]int{}
	s.records.Scan(func(x ref) bool {
		r := s.record(x)
		sum += hashOf(appendRecord(nil, r))
		if t := r.tally(); t != (tally{}) {
			sum += hashOf(appendTally(nil, r.Namespace, r.Key, t))
		}
		if found, ok := s.find(m.spaces[r.Namespace].number, r.Key); !ok || found != x {
			tb.Fatalf("the index has %d, %v for record %d", found, ok, x)
		}
		want[r.Namespace].records++
		want[r.Namespace].bytes += Size(r)
		live[s.places.at(x).page()] += entryPrefix + len(pack(nil, r, m.spaces[r.Namespace].number))
		for i, o := range s.orders() {
			if o.holds(s.at(x)) {
				held[i]++
				if is, ok := o.tree.Get(x); !ok || is != x {
					tb.Fatalf("record %s/%s is not in an order, or an older one is", r.Namespace, r.Key)
				}
			}
		}
		return true
	})
	m.prints.Scan(func(p fingerprint) bool {
		sum += hashOf(appendFingerprint(nil, p))
		if sp, ok := m.spaces[p.namespace]; !ok || m.get(sp, p.key) == nil {
			tb.Fatalf("fingerprint %s points to nothing", p.text)
		}
		return true
	})
	m.audit.Scan(func(it auditItem) bool { sum += hashOf(appendAudit(nil, it.entry)); return true })
	for _, n := range m.nodes {
		sum += hashOf(appendNode(nil, n))
	}
	for i, o := range s.orders() {
		if held[i] != o.tree.Len() {
			tb.Fatal("an order holds a record that is gone")
		}
	}
	inIndex := 0
	for i := range s.index.shards {
		inIndex += s.index.shards[i].used
	}
	if n := s.records.Len(); inIndex != n || int(s.next) != n+len(s.vacant) {
		tb.Fatalf("%d records, %d in the index, %d numbers, %d of them vacant", n, inIndex, s.next, len(s.vacant))
	}
	for _, x := range s.vacant {
		if s.places.at(x) != 0 || s.tallies.at(x) != (tally{}) {
			tb.Fatalf("number %d is vacant and leads somewhere", x)
		}
	}
	var used, dead int
	for no, u := range s.use {
		used += u.used
		dead += u.dead
		if u.used-u.dead != live[no] {
			tb.Fatalf("page %d: counted %d live bytes, there are %d", no, u.used-u.dead, live[no])
		}
		if full := s.list[no] != nil && !slices.Contains(s.open[:], no); full && u.used == u.dead {
			tb.Fatalf("page %d is kept with nothing in it", no)
		}
	}
	if used != s.used || dead != s.dead || dead > used/3+s.slack {
		tb.Fatalf("counted %d bytes, %d of them dead; there are %d and %d", s.used, s.dead, used, dead)
	}
	for name, c := range want {
		if sp := m.spaces[name]; sp.records != c.records || sp.bytes != c.bytes {
			tb.Fatalf("%s: counted %d records of %d bytes, there are %d of %d", name, sp.records, sp.bytes, c.records, c.bytes)
		}
	}
	if sum != m.sum {
		tb.Fatal("the running hash is not that of the state")
	}
}
