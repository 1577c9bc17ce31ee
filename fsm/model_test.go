package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/onced/onced/fsm/fsmpb"
)

// The model is the matrix of semantics.md section 11 over a map: a call looks
// up its row, the record its column, and the cell says the answer and the next
// state. It shares no code with the machine.
const modelColumns = "AHPULSEXRCK"

var modelRows = map[string][]string{
	"mine":       strings.Fields("granted>P expired resumed>P resumed>P resumed>P replayed expired granted>P attempt_spent cancelled cancelled"),
	"other":      strings.Fields("granted>P expired in_flight uncertain granted>P replayed expired granted>P granted>P cancelled cancelled"),
	"conflict":   strings.Fields("granted>P expired conflict conflict conflict conflict expired granted>P conflict cancelled cancelled"),
	"settle":     strings.Fields("not_found not_found ok>S ok>S ok>S already_settled already_settled already_settled ok>S stale_token ok>S"),
	"release":    strings.Fields("not_found not_found ok>R ok>R ok>R already_settled already_settled already_settled ok stale_token stale_token"),
	"extend":     strings.Fields("not_found not_found ok>P ok>P ok>P already_settled already_settled already_settled stale_token stale_token stale_token"),
	"stale":      strings.Fields("not_found not_found stale_token stale_token stale_token stale_token stale_token stale_token stale_token stale_token stale_token"),
	"resolve":    strings.Fields("not_found not_found in_flight ok>S ok>S already_settled already_settled already_settled ok>S stale_token ok>S"),
	"notapplied": strings.Fields("not_found not_found in_flight ok>R ok>R already_settled already_settled already_settled ok stale_token stale_token"),
	"cancel":     strings.Fields("ok>C expired in_flight uncertain uncertain already_settled expired ok>C ok>K ok ok"),
}

type modelRecord struct {
	state                              byte // P, S, R, C or K as stored; U, L, E, X are told by time
	attempt, digest, operation, out    string
	token                              uint64
	claims                             uint32
	created, lease, settled, exp, gone Time
	ttl, keep                          time.Duration
	laxLease, laxExpired               bool
	dropped                            bool
}

type model struct {
	now     Time
	last    uint64
	policy  map[string]Policy
	horizon map[string]Time
	recs    map[string]*modelRecord // "namespace/key"
	latest  map[string]string       // "namespace/fingerprint" to key
}

func (d *model) column(ns, key string) byte {
	r, p := d.recs[ns+"/"+key], d.policy[ns]
	if r == nil {
		if born, ok := modelBorn[key]; ok && born <= d.horizon[ns] {
			return 'H'
		}
		return 'A'
	}
	switch {
	case r.state == 'P' && d.now >= r.lease && r.laxLease && p.RerunOnLeaseExpiry:
		return 'L'
	case r.state == 'P' && d.now >= r.lease:
		return 'U'
	case r.state == 'S' && d.now >= r.exp && r.laxExpired && p.RerunOnExpired:
		return 'X'
	case r.state == 'S' && d.now >= r.exp:
		return 'E'
	}
	return r.state
}

// keys that carry a birth, to their birth.
var modelBorn = func() map[string]Time {
	out := map[string]Time{}
	for i := range 3 {
		t := t0.Add(time.Duration(i) * 20 * time.Millisecond)
		out[keyBorn(t, i)] = t
	}
	return out
}()

// key is the one that a reserve means.
func (d *model) key(c *Command) string {
	if c.Fingerprint == "" {
		return c.Key
	}
	if key, ok := d.latest[c.Namespace+"/"+c.Fingerprint]; ok {
		r := d.recs[c.Namespace+"/"+key]
		if r != nil && (r.state == 'P' || r.state == 'S' && d.now-r.settled < Time(Micros(d.policy[c.Namespace].FingerprintWindow))) {
			return key
		}
	}
	return fmt.Sprintf("%s:%d", c.Fingerprint, d.now/60_000_000)
}

// call gives the answer and applies the cell.
func (d *model) call(c *Command) string {
	key := d.key(c)
	id := c.Namespace + "/" + key
	r, p := d.recs[id], d.policy[c.Namespace]
	row := ""
	switch c.Op {
	case fsmpb.Op_OP_RESERVE:
		row = "other"
		switch {
		case r == nil:
		case r.digest != c.RequestDigest || r.operation != c.Operation:
			row = "conflict"
		case r.attempt == c.AttemptId:
			row = "mine"
		}
	case fsmpb.Op_OP_CANCEL:
		row = "cancel"
	default:
		row = map[fsmpb.Op]string{
			fsmpb.Op_OP_COMMIT: "settle", fsmpb.Op_OP_FAIL: "settle", fsmpb.Op_OP_RELEASE: "release",
			fsmpb.Op_OP_EXTEND: "extend", fsmpb.Op_OP_RESOLVE: "resolve",
		}[c.Op]
		if row == "resolve" && c.Verdict == fsmpb.Verdict_VERDICT_NOT_APPLIED {
			row = "notapplied"
		}
		if r != nil && r.token != c.Token {
			row = "stale"
		}
	}
	column := d.column(c.Namespace, key)
	out := modelOutcome(c)
	if (row == "settle" || row == "resolve") && r != nil && r.state == 'S' && r.out == out {
		return "ok"
	}
	if column == 'A' && (row == "other" || row == "cancel") && !p.RerunOnExpired {
		if born, ok := modelBorn[key]; ok && born > d.now+Time(Micros(p.Retention)) {
			return "invalid"
		}
	}
	answer, next, changes := strings.Cut(modelRows[row][strings.IndexByte(modelColumns, column)], ">")
	if answer == "replayed" && p.RejectDuplicates {
		answer = "duplicate"
	}
	if !changes {
		return answer
	}
	if r == nil {
		r = &modelRecord{created: d.now}
		d.recs[id] = r
	}
	switch next {
	case "P":
		if answer == "granted" {
			created := r.created
			if column == 'X' {
				created = d.now
			}
			d.last = max(d.last+1, uint64(d.now))
			*r = modelRecord{
				state: 'P', attempt: c.AttemptId, digest: c.RequestDigest, operation: c.Operation, token: d.last,
				claims: r.claims + 1, created: created, ttl: p.TTL, keep: p.Retention,
				laxLease: p.RerunOnLeaseExpiry, laxExpired: p.RerunOnExpired,
			}
			if c.Fingerprint != "" {
				d.latest[c.Namespace+"/"+c.Fingerprint] = key
			}
		}
		r.lease = max(r.lease, d.now.Add(p.Lease))
	case "S":
		r.state, r.out, r.settled, r.exp = 'S', out, d.now, d.now.Add(r.ttl)
		r.gone = r.exp.Add(r.keep)
	case "R":
		r.state, r.settled, r.gone = 'R', d.now, d.now.Add(r.ttl)
	case "C":
		*r = modelRecord{state: 'C', created: d.now, laxExpired: p.RerunOnExpired, gone: d.now.Add(p.TTL + p.Retention)}
	case "K":
		r.state, r.gone = 'K', d.now.Add(p.TTL+p.Retention)
		r.laxExpired = r.laxExpired && p.RerunOnExpired
	}
	return answer
}

func modelOutcome(c *Command) string {
	verdict := c.Op == fsmpb.Op_OP_COMMIT || c.Verdict == fsmpb.Verdict_VERDICT_COMMITTED
	return fmt.Sprint(verdict, c.OutcomeDigest)
}

// sweep does all that is due.
func (d *model) sweep() (dropped, tombstoned int) {
	rise := map[string]Time{}
	for id, r := range d.recs {
		ns, key, _ := strings.Cut(id, "/")
		lax := r.laxExpired && d.policy[ns].RerunOnExpired
		switch column := d.column(ns, key); {
		case column == 'P' || column == 'U' || column == 'L' && d.now < r.lease.Add(r.ttl+r.keep):
			continue
		case column != 'L' && d.now < r.gone:
			if r.state == 'S' && d.now >= r.exp && !r.dropped {
				r.dropped = true
				tombstoned++
			}
			continue
		case (r.state == 'S' || r.state == 'C' || r.state == 'K') && !lax:
			rise[ns] = max(rise[ns], r.created, modelBorn[key])
		}
		delete(d.recs, id)
		dropped++
	}
	for ns, h := range rise {
		d.horizon[ns] = max(d.horizon[ns], h)
	}
	return dropped, tombstoned
}

func TestMachineAgainstModel(t *testing.T) {
	t.Parallel()
	ms := func(n int) *int64 { return proto.Int64(int64(n) * 1000) }
	short := func(p *fsmpb.PolicyPatch) *fsmpb.PolicyPatch {
		p.TtlUs, p.RetentionUs, p.LeaseUs, p.MaxLeaseUs, p.FingerprintWindowUs = ms(9), ms(7), ms(5), ms(60), ms(4)
		return p
	}
	policies := []*fsmpb.PolicyPatch{
		short(rerunNone()), short(rerunBoth()),
		short(&fsmpb.PolicyPatch{RerunOnLeaseExpiry: proto.Bool(true), RerunOnExpired: proto.Bool(false), RejectDuplicates: proto.Bool(true)}),
		short(&fsmpb.PolicyPatch{RerunOnLeaseExpiry: proto.Bool(false), RerunOnExpired: proto.Bool(true), RejectDuplicates: proto.Bool(false)}),
	}
	keys := []string{key1, "order-00000002"}
	for k := range modelBorn {
		keys = append(keys, k)
	}
	steps := 0
	t.Cleanup(func() { t.Logf("%d operations of the machine as the model has them", steps) })
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t).crowd()
		g.now = t0 - t0%minute + minute - 30_000 // a minute's end is in reach
		d := &model{
			policy: map[string]Policy{}, horizon: map[string]Time{},
			recs: map[string]*modelRecord{}, latest: map[string]string{},
		}
		setPolicy := func(ns string, patch *fsmpb.PolicyPatch) {
			g.namespace(ns, patch)
			d.policy[ns], _ = ApplyPatch(d.policy[ns], patch)
			d.now = g.now
		}
		for _, ns := range []string{"default", "team"} {
			d.policy[ns], _ = Preset("strict")
			setPolicy(ns, policies[rapid.IntRange(0, 3).Draw(rt, "policy")])
		}
		nsGen := rapid.SampledFrom([]string{"default", "team"})
		for i := rapid.IntRange(1, 60).Draw(rt, "steps"); i > 0; i-- {
			// Often to the very edge of something, or a microsecond beside it.
			if at, ok := g.m.NextDue(); ok && at > g.now && rapid.IntRange(0, 4).Draw(rt, "edge") == 0 {
				g.now = max(g.now, at-1+Time(rapid.IntRange(0, 2).Draw(rt, "beside")))
			} else {
				g.now += Time(rapid.SampledFrom([]int{0, 1, 999, 2500, 4000, 5000, 9000, 30000}).Draw(rt, "pass"))
			}
			d.now = g.now
			ns := nsGen.Draw(rt, "ns")
			switch kind := rapid.IntRange(0, 11).Draw(rt, "kind"); kind {
			case 10:
				setPolicy(ns, policies[rapid.IntRange(0, 3).Draw(rt, "policy")])
			case 11:
				res := g.must(sweep(MaxSweep))
				dropped, tombstoned := d.sweep()
				if res.Dropped != dropped || res.Tombstoned != tombstoned || res.Remaining != 0 {
					rt.Fatalf("sweep: %+v, the model %d and %d", res, dropped, tombstoned)
				}
			default:
				c := &Command{
					Op:  []fsmpb.Op{1, 1, 1, 1, 2, 3, 4, 5, 6, 7}[kind],
					Key: rapid.SampledFrom(keys).Draw(rt, "key"), Namespace: ns,
					AttemptId:     rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "attempt"),
					RequestDigest: rapid.SampledFrom([]string{aHash, aHash, aHash, bHash}).Draw(rt, "request"),
					Operation:     rapid.SampledFrom([]string{"pay", "pay", "pay", "refund"}).Draw(rt, "operation"),
					OutcomeDigest: rapid.SampledFrom([]string{"o1", "o1", "o2"}).Draw(rt, "outcome"), HasResponse: true,
					Verdict: fsmpb.Verdict(rapid.IntRange(1, 3).Draw(rt, "verdict")),
				}
				if c.Op != fsmpb.Op_OP_RESOLVE {
					c.Verdict = 0
				}
				if p, ok := g.m.prints.Get(fingerprint{namespace: ns, text: "trade:x"}); ok && rapid.Bool().Draw(rt, "of trade") {
					c.Key = p.key
				}
				if c.Op == fsmpb.Op_OP_RESERVE && rapid.IntRange(0, 3).Draw(rt, "fp") == 0 {
					c.Key, c.Fingerprint = "", "trade:x"
				}
				if r := g.m.get(g.m.spaces[ns], c.Key); r != nil && rapid.IntRange(0, 5).Draw(rt, "stale") > 0 {
					c.Token = r.Token
				}
				if c.Token == 0 {
					c.Token = 77
				}
				local, isLocal := g.m.Replay(c, g.now)
				want := d.call(c)
				res := g.do(c)
				got := strings.TrimSuffix(answerName(res), "+1")
				if got == "repeat" || got == "ok" {
					got = "ok"
				}
				if got != want {
					rt.Fatalf("%v: %s, the model says %s", c, got, want)
				}
				if isLocal && !sameResult(local, res) {
					rt.Fatalf("%v: from memory %+v, from the log %+v", c, local, res)
				}
			}
			compareModel(rt, d, g.m)
			steps++
		}
		audit(t, g.m)
		b := snapshotOf(t, g.m)
		if !bytes.Equal(b, snapshotOf(t, restored(t, b))) {
			rt.Fatal("snapshot")
		}
	})
}

func compareModel(rt *rapid.T, d *model, m *Machine) {
	if m.LastToken() != d.last || m.store.records.Len() != len(d.recs) {
		rt.Fatalf("token %d, the model %d; %d records, the model %d", m.LastToken(), d.last, m.store.records.Len(), len(d.recs))
	}
	for ns := range d.policy {
		if sp, _ := m.Namespace(ns); sp.Horizon != d.horizon[ns] {
			rt.Fatalf("%s: horizon %d, the model %d", ns, sp.Horizon, d.horizon[ns])
		}
	}
	for id, want := range d.recs {
		ns, key, _ := strings.Cut(id, "/")
		r, ok := m.Record(ns, key)
		if !ok {
			rt.Fatalf("%s is gone", id)
		}
		letter := map[Status]byte{Pending: 'P', Committed: 'S', Failed: 'S', Released: 'R', Cancelled: 'C'}[r.Status]
		if letter == 'C' && r.Token != 0 {
			letter = 'K'
		}
		got := modelRecord{
			state: letter, attempt: r.AttemptID, digest: r.RequestDigest, operation: r.Operation, token: r.Token,
			claims: r.Attempt, created: r.CreatedAt, lease: r.LeaseExpiresAt, dropped: r.Dropped,
			laxLease: r.RerunOnLeaseExpiry, laxExpired: r.RerunOnExpired, gone: r.RetainedUntil,
		}
		w := *want
		got.settled, got.exp, got.ttl, got.keep = w.settled, w.exp, w.ttl, w.keep
		if letter == 'S' {
			got.exp, got.settled = r.ExpiresAt, r.SettledAt
		}
		got.out = w.out
		if letter == 'S' {
			got.out = fmt.Sprint(r.Status == Committed, r.OutcomeDigest)
		}
		if letter == 'C' {
			got.laxLease = w.laxLease
		}
		if got != w {
			rt.Fatalf("%s:\n%+v\nthe model\n%+v", id, got, w)
		}
	}
}
