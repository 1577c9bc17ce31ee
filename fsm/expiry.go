package fsm

// NextDue is when a sweep would next find something to do.
func (m *Machine) NextDue() (Time, bool) { return 0, false }
