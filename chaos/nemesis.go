package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Injected is one fault of a run.
type Injected struct {
	Name    string  `json:"name"`
	Target  string  `json:"target"`
	Leader  bool    `json:"leader"` // it hit the leader
	At      float64 `json:"atSeconds"`
	Held    float64 `json:"heldSeconds"`
	Proof   string  `json:"proof"`             // what it did
	WriteMs int64   `json:"nextWriteMs"`       // from the fault to the next acknowledged write; -1: none came
	ReadyMs int64   `json:"readyMs"`           // from its end until every node was ready
	Trouble string  `json:"trouble,omitempty"` // why the run fails by it
	began   int64   // nanoseconds of the history
	struck  int64   // when it took effect
	lasts   bool    // takes writes away from everybody
}

// nemesis injects one fault after the other until for is over.
type nemesis struct {
	*rig
	faults   []*Fault
	rng      *rand.Rand
	progress func(format string, args ...any)
	// after is called when a fault is over and all nodes are ready.
	after func(ctx context.Context) error
}

// run goes on until a time, and until there were some faults at least, but no more
// than three times as long. It gives what it did, in order. Each kind comes once
// before any comes again.
func (m *nemesis) run(ctx context.Context, length time.Duration, atLeast int) (done []*Injected) {
	began := time.Now()
	until := began.Add(length)
	if len(m.faults) == 0 {
		_ = pause(ctx, time.Until(until))
		return nil
	}
	var deck []*Fault
	for ctx.Err() == nil && (time.Now().Before(until) || len(done) < atLeast && time.Since(began) < 3*length) {
		if len(deck) == 0 {
			deck = append(deck, m.faults...)
			m.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		// Let the cluster work for a while, so that each fault meets load.
		if pause(ctx, between(m.rng, 300*time.Millisecond, 900*time.Millisecond)) != nil {
			break
		}
		f := deck[0]
		deck = deck[1:]
		i := m.one(ctx, f)
		done = append(done, i)
		m.progress("%s", i)
	}
	return done
}

// one injects f, holds it, ends it, and waits until all nodes serve.
func (m *nemesis) one(ctx context.Context, f *Fault) *Injected {
	i := &Injected{Name: f.Name, began: m.history.now(), WriteMs: -1, lasts: f.Fails}
	i.At = time.Duration(i.began).Seconds()
	hurt, err := f.Inject(ctx, m.rig, m.rng)
	if err != nil {
		i.Trouble = "could not be injected: " + err.Error()
		m.repair(ctx)
		return i
	}
	i.Target, i.Leader, i.struck = hurt.target, hurt.leader, hurt.struck
	if i.struck == 0 {
		i.struck = m.history.now()
	}
	_ = pause(ctx, hurt.hold)
	i.Held = time.Duration(m.history.now() - i.began).Seconds()
	// What began must end, also when the run is told to.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoverTime)
	defer cancel()
	i.Proof, err = hurt.heal(end)
	switch {
	case err != nil:
		i.Trouble = "could not be ended: " + err.Error()
	case i.Proof == "":
		i.Trouble = "had no effect"
	}
	if ctx.Err() != nil {
		return i // the run is called off
	}
	healed := time.Now()
	if err := m.nodes.awaitReady(ctx, recoverTime, m.nodes.All...); err != nil {
		i.Trouble = join(i.Trouble, err.Error())
		m.repair(ctx)
	}
	i.ReadyMs = time.Since(healed).Milliseconds()
	if m.after != nil && ctx.Err() == nil {
		if err := m.after(ctx); err != nil {
			i.Trouble = join(i.Trouble, err.Error())
		}
	}
	return i
}

// repair gets the cluster going again after trouble, so that the run can end
// and be judged.
func (m *nemesis) repair(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	_ = m.fabric.Heal()
	for _, n := range m.nodes.All {
		if !n.running() {
			_ = m.nodes.start(n)
		}
	}
	_ = m.nodes.awaitReady(ctx, recoverTime, m.nodes.All...)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// String is the line of progress.
func (i *Injected) String() string {
	role := ""
	if i.Leader {
		role = " (leader)"
	}
	s := fmt.Sprintf("%6.1fs %-10s %s%s for %.1fs: %s", i.At, i.Name, i.Target, role, i.Held, i.Proof)
	if i.Trouble != "" {
		s += " TROUBLE: " + i.Trouble
	}
	return s
}
