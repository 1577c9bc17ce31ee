package fsm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onced/onced/idem"
)

var namespaceName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// putNamespace stores ns in the place of the one of its name.
func (m *Machine) putNamespace(ns *Namespace) {
	m.scratch = appendNamespace(m.scratch[:0], ns)
	ns.hash = hashOf(m.scratch)
	m.sum += ns.hash
	sp, ok := m.spaces[ns.Name]
	if ok {
		m.sum -= sp.ns.hash
		sp.ns = ns
	} else {
		m.spaces[ns.Name] = &space{ns: ns, number: uint32(len(m.store.names))}
		m.store.names = append(m.store.names, ns.Name)
	}
	m.names.Set(ns)
}

// namespacePut makes a namespace, or changes the policy of one.
func (m *Machine) namespacePut(c *Command) Result {
	sp, exists := m.spaces[c.Namespace]
	if !exists {
		return m.createNamespace(c)
	}
	ns := sp.ns
	switch {
	case ns.Retired:
		return refuse(idem.CodeNamespaceRetired, "the name is not given out again")
	case c.AttemptId != "" && c.AttemptId == ns.lastChangeID: // this very call, again
		outcome := OutcomeNamespaceChanged
		if ns.Version == 1 {
			outcome = OutcomeNamespaceCreated
		}
		return Result{Outcome: outcome, Namespace: ns}
	case c.ExpectedVersion != 0 && c.ExpectedVersion != ns.Version:
		return refuseVersion(c, ns)
	}
	policy, err := ApplyPatch(ns.Policy, c.Policy)
	switch {
	case err != nil:
		return refuseField(err)
	case policy == ns.Policy:
		return Result{Outcome: OutcomeNamespaceChanged, Namespace: ns}
	}
	n := *ns
	n.Version++
	n.Policy = policy
	n.UpdatedAt = m.now
	n.lastChangeID = c.AttemptId
	m.putNamespace(&n)
	m.trail(c, "namespace.change", "version "+strconv.FormatUint(n.Version, 10))
	return Result{Outcome: OutcomeNamespaceChanged, Namespace: &n, Changed: true}
}

// createNamespace makes a namespace; what the patch does not say is preset
// strict's.
func (m *Machine) createNamespace(c *Command) Result {
	switch {
	case !namespaceName.MatchString(c.Namespace):
		return refuse(idem.CodeInvalidRequest, "namespace: must be 1 to 63 of a-z, 0-9, '.', '_', '-', and begin with a letter or digit")
	case c.ExpectedVersion != 0:
		return refuse(idem.CodeStaleVersion, "the namespace does not exist")
	}
	strict, _ := Preset("strict")
	policy, err := ApplyPatch(strict, c.Policy)
	if err != nil {
		return refuseField(err)
	}
	ns := &Namespace{
		Name: c.Namespace, Version: 1, Policy: policy,
		CreatedAt: m.now, UpdatedAt: m.now, lastChangeID: c.AttemptId,
	}
	m.putNamespace(ns)
	m.trail(c, "namespace.create", "")
	return Result{Outcome: OutcomeNamespaceCreated, Namespace: ns, Changed: true}
}

// namespaceDelete retires a name for ever. With force its records are out of
// reach at once, and removed by the sweeps that follow.
func (m *Machine) namespaceDelete(c *Command) Result {
	sp, ok := m.spaces[c.Namespace]
	switch {
	case !ok:
		return refuse(idem.CodeNamespaceNotFound, "")
	case sp.ns.Retired && c.AttemptId != "" && c.AttemptId == sp.ns.lastChangeID:
		return Result{Outcome: OutcomeNamespaceDeleted, Namespace: sp.ns}
	case sp.ns.Retired:
		return refuse(idem.CodeNamespaceRetired, "the namespace is deleted")
	case c.Namespace == DefaultNamespace:
		return refuse(idem.CodeInvalidRequest, "namespace: default cannot be deleted")
	case c.ExpectedVersion != 0 && c.ExpectedVersion != sp.ns.Version:
		return refuseVersion(c, sp.ns)
	case sp.records > 0 && !c.Force:
		return refuse(idem.CodeNamespaceNotEmpty, "the namespace holds "+strconv.FormatInt(sp.records, 10)+" records; force drops them")
	}
	n := *sp.ns
	n.Version++
	n.Retired = true
	n.UpdatedAt = m.now
	n.lastChangeID = c.AttemptId
	m.putNamespace(&n)
	detail := ""
	if sp.records > 0 {
		detail = "forced, with " + strconv.FormatInt(sp.records, 10) + " records"
		m.drainLater(sp)
	}
	m.trail(c, "namespace.delete", detail)
	return Result{Outcome: OutcomeNamespaceDeleted, Namespace: &n, Changed: true}
}

// drainLater hands the records of a retired namespace to the sweeps, in name
// order, which a restored machine arrives at too.
func (m *Machine) drainLater(sp *space) {
	i, _ := slices.BinarySearchFunc(m.draining, sp, func(a, b *space) int {
		return strings.Compare(a.ns.Name, b.ns.Name)
	})
	m.draining = slices.Insert(m.draining, i, sp)
}

func refuseVersion(c *Command, ns *Namespace) Result {
	return Result{Code: idem.CodeStaleVersion, Detail: versions(c.ExpectedVersion, ns.Version), Namespace: ns}
}

func refuseField(err error) Result { return refuse(idem.CodeInvalidRequest, err.Error()) }
