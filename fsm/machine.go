package fsm

// Machine is the replicated state: namespaces, records, nodes and the audit
// trail. It is not safe for concurrent use: the caller holds its lock for
// writing around Apply and for reading around everything else. Records and
// Namespaces it hands out are immutable and outlive the lock.
type Machine struct {
	index uint64
	now   Time
}

// New gives the machine before the first log entry: namespace "default" under
// preset strict, nothing else.
func New() *Machine { return &Machine{} }

// Apply decides the commands of the entry at index, in order, at one time:
// the entry's stamp or the last log time, whichever is later. It gives one
// Result a command and never panics on content.
func (m *Machine) Apply(index uint64, e *Entry) []Result {
	m.index = index
	return make([]Result, len(e.GetCommands()))
}

// Index is the log index of the last applied entry.
func (m *Machine) Index() uint64 { return m.index }

// Now is the log time of the last applied entry.
func (m *Machine) Now() Time { return m.now }

// StateHash is a function of the state alone: equal on every node that has
// applied the same entries.
func (m *Machine) StateHash() uint64 { return 0 }

// ClusterID is the id set by the first OP_INIT, "" before it.
func (m *Machine) ClusterID() string { return "" }

// LastToken is the highest token given out.
func (m *Machine) LastToken() uint64 { return 0 }
