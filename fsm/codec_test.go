package fsm

import (
	"encoding/binary"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/onced/onced/fsm/fsmpb"
)

// oneOfEach is an entry per op with every field that counts for it.
func oneOfEach() map[string]*Entry {
	policy := &fsmpb.PolicyPatch{
		Preset: proto.String("gateway"), TtlUs: proto.Int64(1000), RetentionUs: proto.Int64(0),
		LeaseUs: proto.Int64(2000), MaxLeaseUs: proto.Int64(3000), RerunOnLeaseExpiry: proto.Bool(true),
		RerunOnExpired: proto.Bool(false), RejectDuplicates: proto.Bool(true), Redact: proto.Bool(false),
		MaxResponseBytes: proto.Int64(4), MaxRecords: proto.Int64(5), MaxBytes: proto.Int64(6),
		FingerprintWindowUs: proto.Int64(7),
	}
	commands := map[string]*Command{
		"reserve": {
			Op: fsmpb.Op_OP_RESERVE, Key: key1, Operation: "pay", RequestDigest: aHash, AttemptId: "attempt-0000000001",
			NotAfterUs: int64(t0) + 5, TtlUs: 6, LeaseUs: 7, CorrelationId: "corr",
		},
		"reserve_fingerprint": {Op: fsmpb.Op_OP_RESERVE, Fingerprint: "trade:kraken:BTC-USD:BUY:1:live", AttemptId: "attempt-0000000002"},
		"commit": {
			Op: fsmpb.Op_OP_COMMIT, Key: key1, Token: 1 << 60, Response: []byte(`{"a":"ü"}`), HasResponse: true,
			OutcomeDigest: "o1", Redacted: []string{"/a", "/b"}, ExpectedVersion: 3, CorrelationId: "corr",
		},
		"commit_omitted": {Op: fsmpb.Op_OP_COMMIT, Key: key1, Token: 1, ResponseOmitted: true, OutcomeDigest: "o1"},
		"fail":           {Op: fsmpb.Op_OP_FAIL, Key: key1, Token: 2, ErrorCode: "declined", OutcomeDigest: "o2"},
		"release":        {Op: fsmpb.Op_OP_RELEASE, Key: key1, Token: 3, Reason: "never sent", Actor: "gw"},
		"extend":         {Op: fsmpb.Op_OP_EXTEND, Key: key1, Token: 4, LeaseUs: 9},
		"cancel":         {Op: fsmpb.Op_OP_CANCEL, Key: key1, Reason: "withdrawn", NotAfterUs: 9},
		"resolve": {
			Op: fsmpb.Op_OP_RESOLVE, Key: key1, Token: 5, Verdict: fsmpb.Verdict_VERDICT_NOT_APPLIED, Reason: "looked", Actor: "ann",
		},
		"namespace_put":    {Op: fsmpb.Op_OP_NAMESPACE_PUT, AttemptId: "c1", ExpectedVersion: 2, Policy: policy},
		"namespace_delete": {Op: fsmpb.Op_OP_NAMESPACE_DELETE, AttemptId: "c2", Force: true},
		"node_info": {Op: fsmpb.Op_OP_NODE_INFO, Node: &fsmpb.Node{
			Id: "n1", Instance: "i", HttpAddress: "127.0.0.1:1", PeerAddress: "127.0.0.1:2", Version: "v1",
		}},
		"sweep": {Op: fsmpb.Op_OP_SWEEP, Limit: 100},
		"tick":  {Op: fsmpb.Op_OP_TICK, CheckIndex: 9, CheckHash: 1 << 63},
		"replays": {Op: fsmpb.Op_OP_REPLAYS, Replays: &fsmpb.ReplayBatch{
			NodeId: "n1", Sequence: 3, Counts: []*fsmpb.ReplayCount{{Namespace: "default", Key: key1, Token: 5, Count: 6, LastUs: 7}},
		}},
		"init": {Op: fsmpb.Op_OP_INIT, ClusterId: "c"},
	}
	out := make(map[string]*Entry, len(commands))
	for name, c := range commands {
		c.Namespace = "default"
		out[name] = &Entry{TimeUs: int64(t0), Commands: []*Command{c}}
	}
	return out
}

func encoded(tb testing.TB, e *Entry) []byte {
	tb.Helper()
	b, err := EncodeEntry(e)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	for name, e := range oneOfEach() {
		got, err := DecodeEntry(encoded(t, e))
		if err != nil || !proto.Equal(got, e) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if e, err := DecodeEntry(encoded(t, &Entry{})); err != nil || len(e.Commands) != 0 {
		t.Errorf("empty: %v", err)
	}
}

// Every flipped bit and every cut of an entry is refused.
func TestDamagedEntry(t *testing.T) {
	t.Parallel()
	b := encoded(t, oneOfEach()["commit"])
	refused := func(b []byte, want ...error) {
		t.Helper()
		e, err := DecodeEntry(b)
		check := CheckEntry(b)
		if e != nil || err == nil || check == nil {
			t.Fatalf("%x: %v, %v", b, err, check)
		}
		for _, w := range want {
			if errors.Is(err, w) && errors.Is(check, w) {
				return
			}
		}
		t.Fatalf("%v, %v", err, check)
	}
	for i := range b {
		for bit := range 8 {
			bad := append([]byte(nil), b...)
			bad[i] ^= 1 << bit
			if i == 0 {
				refused(bad, ErrUnknownFormat)
			} else {
				refused(bad, ErrDamaged)
			}
		}
		refused(b[:i], ErrDamaged)
	}
	refused(append(append([]byte(nil), b...), 0), ErrDamaged)
	if CheckEntry(b) != nil {
		t.Fatal("the whole entry is refused")
	}
}

func enveloped(payload []byte) []byte {
	b := append([]byte{entryVersion, 0, 0, 0, 0}, payload...)
	binary.BigEndian.PutUint32(b[1:], entryChecksum(b))
	return b
}

// What a later version wrote halts the node; it is never half understood.
func TestEntryOfALaterVersion(t *testing.T) {
	t.Parallel()
	field := protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 1)
	for name, e := range map[string]*Entry{
		"op 0":    {Commands: []*Command{{}}},
		"op 15":   {Commands: []*Command{{Op: 15}}},
		"op -1":   {Commands: []*Command{{Op: -1}}},
		"verdict": {Commands: []*Command{{Op: fsmpb.Op_OP_RESOLVE, Verdict: 4}}},
		"nil":     {Commands: []*Command{nil}},
	} {
		payload, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeEntry(enveloped(payload)); !errors.Is(err, ErrUnknownFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if CheckEntry(enveloped(payload)) != nil {
			t.Errorf("%s: CheckEntry decodes", name)
		}
		if _, err := EncodeEntry(e); !errors.Is(err, ErrUnknownFormat) {
			t.Errorf("%s: encoded: %v", name, err)
		}
	}
	all := oneOfEach()
	for name, m := range map[string]func() (*Entry, proto.Message){
		"entry":   func() (*Entry, proto.Message) { e := all["tick"]; return e, e },
		"command": func() (*Entry, proto.Message) { e := all["sweep"]; return e, e.Commands[0] },
		"policy":  func() (*Entry, proto.Message) { e := all["namespace_put"]; return e, e.Commands[0].Policy },
		"node":    func() (*Entry, proto.Message) { e := all["node_info"]; return e, e.Commands[0].Node },
		"batch":   func() (*Entry, proto.Message) { e := oneOfEach()["replays"]; return e, e.Commands[0].Replays },
		"count":   func() (*Entry, proto.Message) { e := all["replays"]; return e, e.Commands[0].Replays.Counts[0] },
	} {
		e, part := m()
		part.ProtoReflect().SetUnknown(field)
		payload, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeEntry(enveloped(payload)); !errors.Is(err, ErrUnknownFormat) {
			t.Errorf("unknown field in the %s: %v", name, err)
		}
	}
	if _, err := DecodeEntry(enveloped([]byte{0xff})); !errors.Is(err, ErrDamaged) {
		t.Errorf("no protobuf: %v", err)
	}
	if _, err := EncodeEntry(&Entry{Commands: []*Command{reserve("\xff", "a")}}); err == nil {
		t.Error("a text that is no UTF-8 gets into the log")
	}
	if _, err := EncodeEntry(nil); err != nil {
		t.Errorf("nil: %v", err)
	}
}

func TestResultProto(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.namespace("default", rerunBoth())
	g.must(trade("trade:x", "a"))
	results := []Result{
		g.pass(time10m).must(trade("trade:x", "b")), // with a previous attempt
		g.do(trade("trade:x", "c")),
		g.do(put("team", "c1", rerunBoth())),
		g.do(sweep(1)),
		g.do(reserve(key1, "")),
		{Dropped: 1, Tombstoned: 2, Remaining: 3},
	}
	r := results[0].Record
	c := commit(r.Key, r.Token, "o1")
	c.Redacted = []string{"/a"}
	results = append(results, g.do(c), g.do(release(key1, 1)))
	for i := range results {
		b, err := proto.Marshal(results[i].Proto())
		if err != nil {
			t.Fatal(err)
		}
		p := new(fsmpb.Result)
		if err := proto.Unmarshal(b, p); err != nil {
			t.Fatal(err)
		}
		got := ResultFromProto(p)
		if !sameResult(got, results[i]) {
			t.Errorf("%d:\n%+v\n%+v", i, got, results[i])
		}
	}
	if got := ResultFromProto(nil); got.Record != nil || got.Namespace != nil {
		t.Error("nil")
	}
}
