package main

import (
	"context"
	"fmt"
	"time"

	"github.com/onced/onced/bench"
)

// figure is what one measurement gave. Times of processors are microseconds an
// operation.
type figure struct {
	System       string  `json:"system"`
	Work         work    `json:"work"`
	Clients      int     `json:"clients"`
	Round        int     `json:"round"`
	OpsPerSecond float64 `json:"opsPerSecond"`
	P50          float64 `json:"p50Ms"` // of a call: a batch is one
	P99          float64 `json:"p99Ms"`
	ServerCPU    float64 `json:"serverCpuUs"`
	ClientCPU    float64 `json:"clientCpuUs"`
	// OtherCPU is the part of all cores that neither the system nor its clients
	// used: the kernel's own threads, the idle systems, and whatever else runs.
	OtherCPU float64 `json:"otherCpu"`
	// Flushes of the device for each operation; below 0: it does not count them.
	Flushes float64          `json:"flushes"`
	Errors  map[string]int64 `json:"errors,omitempty"`
}

// sample is what the counts of the machine were at one moment.
type sample struct {
	at           time.Time
	server, busy time.Duration
	flushes      uint64
}

// meter takes a sample whenever the load asks for processor times: at the begin
// and at the end of what it measures.
type meter struct {
	pids    []int
	disk    *device // nil: it does not count flushes
	samples []sample
	failed  error // why there is no sample
}

func (m *meter) cpu() (time.Duration, error) {
	s, err := m.sample()
	if err != nil {
		m.failed = err
		return 0, err
	}
	m.samples = append(m.samples, s)
	return s.server, nil
}

func (m *meter) sample() (s sample, err error) {
	s.at = time.Now()
	if s.server, err = treeCPU(m.pids); err != nil {
		return s, err
	}
	if s.busy, err = busy(); err != nil {
		return s, err
	}
	if m.disk != nil {
		s.flushes, err = m.disk.flushes()
	}
	return s, err
}

// measure runs one work on a system.
func measure(ctx context.Context, s system, w work, clients int, t timing, disk *device, cores int) (figure, error) {
	l, err := s.load(ctx, w)
	if err != nil {
		return figure{}, err
	}
	defer l.close()
	m := &meter{pids: s.pids(), disk: disk}
	got, err := bench.Load{Clients: clients, For: t.measured, Warmup: t.warmup, Start: l.start, CPU: m.cpu}.Run(ctx, nil)
	if err != nil {
		return figure{}, err
	}
	if l.check != nil {
		if err := l.check(); err != nil {
			return figure{}, err
		}
	}
	if m.failed != nil {
		return figure{}, m.failed
	}
	if got.Operations == 0 {
		return figure{}, fmt.Errorf("not one operation, errors: %v", got.Errors)
	}
	f := figure{
		Work: w, Clients: clients, OpsPerSecond: got.OpsPerSecond, P50: got.LatencyMs.P50, P99: got.LatencyMs.P99,
		ClientCPU: got.ClientCpuUs, Flushes: -1, Errors: got.Errors,
	}
	return f, m.fill(&f, float64(got.Operations), cores)
}

// fill puts what the two samples tell into f.
func (m *meter) fill(f *figure, operations float64, cores int) error {
	from, to := m.samples[0], m.samples[1]
	if to.server < from.server {
		return fmt.Errorf("processor time went from %v to %v", from.server, to.server)
	}
	f.ServerCPU = (to.server - from.server).Seconds() * 1e6 / operations
	known := (f.ServerCPU + f.ClientCPU) * operations / 1e6
	f.OtherCPU = max(0, (to.busy-from.busy).Seconds()-known) / to.at.Sub(from.at).Seconds() / float64(cores)
	if m.disk != nil {
		f.Flushes = float64(to.flushes-from.flushes) / operations
	}
	return nil
}

// timing is how long one measurement takes.
type timing struct{ warmup, measured time.Duration }
