package httpapi

import (
	"net/http"
	"time"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// namespaceList answers GET /v1/namespaces.
type namespaceList struct {
	Namespaces []idem.Namespace `json:"namespaces"`
}

func (c *call) serveNamespaces() *reply {
	o, err := c.freshness()
	if err != nil {
		return c.refuse(err)
	}
	list := &namespaceList{Namespaces: []idem.Namespace{}}
	index, at, err := c.read(o, func(m *fsm.Machine, _ fsm.Time) {
		for _, ns := range m.Namespaces() {
			list.Namespaces = append(list.Namespaces, *namespaceView(ns))
		}
	})
	if err != nil {
		return c.refuse(err)
	}
	return &reply{status: http.StatusOK, outcome: "ok", body: list, index: index, at: at}
}

func (c *call) serveNamespace() *reply {
	o, err := c.freshness()
	if err != nil {
		return c.refuse(err)
	}
	var ns *fsm.Namespace
	var missing *idem.Error
	index, at, err := c.read(o, func(m *fsm.Machine, _ fsm.Time) {
		ns, missing = namespaceError(m, c.namespace)
	})
	if err != nil {
		return c.refuse(err)
	}
	if missing != nil {
		return c.readRefused(missing, index, at)
	}
	return &reply{status: http.StatusOK, outcome: "ok", body: namespaceView(ns), etag: ns.Version, index: index, at: at}
}

// putNamespace makes a namespace or changes the named parts of its policy.
func (c *call) putNamespace() *reply {
	b, err := c.body(false)
	defer b.free()
	if err != nil {
		return c.refuse(err)
	}
	var p idem.Policy
	if err := idem.Unmarshal(b.data, &p); err != nil {
		return c.refuse(err)
	}
	cmd := &fsm.Command{
		Op: fsmpb.Op_OP_NAMESPACE_PUT, Namespace: c.namespace,
		AttemptId: c.srv.newID(), CorrelationId: c.correlation,
	}
	if len(c.r.Header["If-None-Match"]) > 0 {
		return c.refuse(invalid("If-None-Match header is not taken: read the namespace first, and send If-Match when it is there"))
	}
	if cmd.ExpectedVersion, err = versionHeader(c.r.Header); err != nil {
		return c.refuse(err)
	}
	if cmd.Policy, err = policyPatch(&p); err != nil {
		return c.refuse(err)
	}
	res, rep := c.decideOne(cmd)
	if rep != nil {
		return rep
	}
	if res.result.Namespace == nil {
		return c.refuse(c.fault("namespace put without a namespace"))
	}
	c.srv.metrics.namespaces.learn(c.namespace)
	rep = res.reply()
	rep.body, rep.etag = namespaceView(res.result.Namespace), res.result.Namespace.Version
	return rep
}

// deleteNamespace retires a name for ever; with force its records go with it.
func (c *call) deleteNamespace() *reply {
	cmd := &fsm.Command{
		Op: fsmpb.Op_OP_NAMESPACE_DELETE, Namespace: c.namespace,
		AttemptId: c.srv.newID(), CorrelationId: c.correlation,
	}
	if s, ok := c.query["force"]; ok {
		switch s {
		case "true":
			cmd.Force = true
		case "false":
		default:
			return c.refuse(invalid("force must be true or false"))
		}
	}
	var err *idem.Error
	if cmd.ExpectedVersion, err = versionHeader(c.r.Header); err != nil {
		return c.refuse(err)
	}
	res, rep := c.decideOne(cmd)
	if rep != nil {
		return rep
	}
	c.srv.metrics.namespaces.forget(c.namespace)
	return res.reply()
}

// single is the decision of one command that is not about a key.
type single struct {
	result  *fsm.Result
	index   uint64
	at      fsm.Time
	outcome success
}

func (s *single) reply() *reply {
	return &reply{status: s.outcome.status, outcome: s.outcome.name, index: s.index, at: s.at}
}

// decideOne has a command of the control plane decided, or gives the refusal.
func (c *call) decideOne(cmd *fsm.Command) (*single, *reply) {
	ctx := c.context(0, false)
	defer ctx.end()
	d, fault := c.srv.node.Decide(ctx, []*fsm.Command{cmd}, 0)
	if fault != nil {
		return nil, c.refuse(c.asError(fault))
	}
	if len(d.Results) != 1 {
		return nil, c.refuse(c.fault("node gave %d results to 1 command", len(d.Results)))
	}
	res := &d.Results[0]
	if res.Code != "" {
		// A refusal here does not show that the namespace exists.
		if res.Code == idem.CodeNamespaceNotFound || res.Code == idem.CodeNamespaceRetired {
			c.srv.metrics.namespaces.forget(c.namespace)
		}
		return nil, c.refused(&item{cmd: cmd, correlation: c.correlation}, d, res)
	}
	ok, known := outcomes[res.Outcome]
	if !known {
		return nil, c.refuse(c.fault("outcome %v without a table row", res.Outcome))
	}
	return &single{res, d.Index, d.Time, *ok}, nil
}

// policyPatch checks what can be checked of a policy without the one it
// changes; how its parts fit together is the machine's to judge.
func policyPatch(p *idem.Policy) (*fsmpb.PolicyPatch, *idem.Error) {
	patch := &fsmpb.PolicyPatch{Preset: p.Preset, Redact: p.Redact, MaxResponseBytes: p.MaxResponseBytes, MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes}
	if p.Preset != nil {
		if _, ok := fsm.Preset(*p.Preset); !ok {
			return nil, invalid("preset must be strict or gateway")
		}
	}
	for _, d := range []struct {
		name     string
		value    *string
		into     **int64
		shortest time.Duration
	}{
		{"ttl", p.TTL, &patch.TtlUs, fsm.MinTTL},
		{"retention", p.Retention, &patch.RetentionUs, 0},
		{"lease", p.Lease, &patch.LeaseUs, fsm.MinTTL},
		{"maxLease", p.MaxLease, &patch.MaxLeaseUs, fsm.MinTTL},
		{"fingerprintWindow", p.FingerprintWindow, &patch.FingerprintWindowUs, 0},
	} {
		if d.value == nil {
			continue
		}
		v, err := idem.ParseDuration(d.name, *d.value, d.shortest, fsm.MaxTTL)
		if err != nil {
			return nil, err
		}
		us := fsm.Micros(v)
		*d.into = &us
	}
	for _, r := range []struct {
		name    string
		value   *string
		into    **bool
		off, on string
	}{
		{"onLeaseExpiry", p.OnLeaseExpiry, &patch.RerunOnLeaseExpiry, "uncertain", "rerun"},
		{"onExpired", p.OnExpired, &patch.RerunOnExpired, "reject", "rerun"},
		{"onDuplicate", p.OnDuplicate, &patch.RejectDuplicates, "replay", "reject"},
	} {
		if r.value == nil {
			continue
		}
		if *r.value != r.off && *r.value != r.on {
			return nil, invalid(r.name + " must be " + r.off + " or " + r.on)
		}
		on := *r.value == r.on
		*r.into = &on
	}
	for _, n := range []struct {
		name  string
		value *int64
		most  int64
		says  string
	}{
		{"maxResponseBytes", p.MaxResponseBytes, fsm.MaxResponseBytes, "maxResponseBytes must be 0 to 262144"},
		{"maxRecords", p.MaxRecords, 1<<63 - 1, "maxRecords must not be negative; 0 is no limit"},
		{"maxBytes", p.MaxBytes, 1<<63 - 1, "maxBytes must not be negative; 0 is no limit"},
	} {
		if n.value != nil && (*n.value < 0 || *n.value > n.most) {
			return nil, invalid(n.says)
		}
	}
	return patch, nil
}

func namespaceView(ns *fsm.Namespace) *idem.Namespace {
	p := ns.Policy
	duration := func(d time.Duration) *string { s := idem.FormatDuration(d); return &s }
	choice := func(on bool, yes, no string) *string {
		if on {
			return &yes
		}
		return &no
	}
	return &idem.Namespace{
		Name: ns.Name, Version: ns.Version, CreatedAt: stamp(ns.CreatedAt), UpdatedAt: stamp(ns.UpdatedAt),
		Policy: idem.Policy{
			TTL: duration(p.TTL), Retention: duration(p.Retention), Lease: duration(p.Lease), MaxLease: duration(p.MaxLease),
			OnLeaseExpiry:    choice(p.RerunOnLeaseExpiry, "rerun", "uncertain"),
			OnExpired:        choice(p.RerunOnExpired, "rerun", "reject"),
			OnDuplicate:      choice(p.RejectDuplicates, "reject", "replay"),
			Redact:           &p.Redact,
			MaxResponseBytes: &p.MaxResponseBytes, MaxRecords: &p.MaxRecords, MaxBytes: &p.MaxBytes,
			FingerprintWindow: duration(p.FingerprintWindow),
		},
	}
}
