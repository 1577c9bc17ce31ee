// Package fsm holds the rules of onced: a pure state machine that a replicated
// log drives. The same commands at the same times give the same state, results
// and bytes on every node; nothing here reads a clock, a random source, an
// environment or a network.
package fsm

import "github.com/onced/onced/fsm/fsmpb"

// Entry is one log entry: commands that are decided in order, at one time.
type Entry = fsmpb.Entry

// Command is one request to the machine; fsm.proto says which fields count for
// which Op. Values are validated before the log; Apply is total all the same.
type Command = fsmpb.Command

// Tokenless tells whether c carries no token that would make a late copy of it
// harmless: such commands carry the deadline of their call in NotAfterUs and
// do nothing when they are applied after it (semantics.md section 3).
func Tokenless(c *Command) bool {
	switch c.Op {
	case fsmpb.Op_OP_RESERVE, fsmpb.Op_OP_CANCEL, fsmpb.Op_OP_NAMESPACE_PUT, fsmpb.Op_OP_NAMESPACE_DELETE:
		return true
	}
	return false
}
