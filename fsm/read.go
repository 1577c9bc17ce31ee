package fsm

import "github.com/onced/onced/fsm/fsmpb"

// ListOptions select a page of records in key order.
type ListOptions struct {
	Status string // a view status, "" for any
	Prefix string // keys that begin with it
	After  string // keys after this one: the next of the page before
	Limit  int    // at most this many; values below 1 mean 1
}

// Record gives the record of key.
func (m *Machine) Record(ns, key string) (*Record, bool) { return nil, false }

// Records gives a page of ns in key order. next is the After of the following
// page, "" at the end; a page may hold fewer than Limit records, or none, and
// still have a next, because the number of records visited is bounded.
func (m *Machine) Records(ns string, o ListOptions, now Time) (recs []*Record, next string) {
	return nil, ""
}

// ViewStatus gives the status of r as callers see it at now.
func (m *Machine) ViewStatus(r *Record, now Time) (status, verdict string, takeover bool) {
	return "", "", false
}

// Namespace gives a namespace, retired ones too.
func (m *Machine) Namespace(name string) (*Namespace, bool) { return nil, false }

// Namespaces gives the live namespaces in name order.
func (m *Machine) Namespaces() []*Namespace { return nil }

// Nodes gives what the nodes said of themselves, by id.
func (m *Machine) Nodes() []*fsmpb.Node { return nil }
