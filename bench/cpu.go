package bench

import "time"

// meter takes the processor time that client and servers use between start and
// stop.
type meter struct {
	cpu           func() (time.Duration, error)
	started       bool
	own, servers  time.Duration
	hasServers    bool
	ownAt, server time.Duration // at the start
}

func (m *meter) start() {
	m.started = true
	m.ownAt = ownCPU()
	if m.cpu != nil {
		at, err := m.cpu()
		m.server, m.hasServers = at, err == nil
	}
}

func (m *meter) stop() {
	if !m.started {
		return
	}
	m.own = ownCPU() - m.ownAt
	if m.hasServers {
		at, err := m.cpu()
		m.servers, m.hasServers = at-m.server, err == nil && at >= m.server
	}
}

// fill puts the processor time of each operation into r.
func (m *meter) fill(r *Result) {
	if !m.started || r.Operations == 0 {
		return
	}
	each := func(d time.Duration) float64 {
		return rounded(float64(d) / float64(time.Microsecond) / float64(r.Operations))
	}
	r.ClientCpuUs = each(m.own)
	if m.hasServers {
		r.ServerCpuUs = each(m.servers)
	}
}
