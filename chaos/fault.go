package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is one kind of trouble. Inject brings it about and gives what ends it.
type Fault struct {
	Name  string
	About string // one line, for people
	Root  bool   // needs root, and what it names
	Needs need   // what the run must be built on
	// Fails tells that the fault takes writes away from everybody until it is
	// healed, so that no fail-over can be measured.
	Fails  bool
	Inject func(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error)
}

// need is what a fault must have under it.
type need int

const (
	anything   need = iota
	byProxies       // nodes on loopback behind proxies
	namespaces      // each node in a network namespace
	disks           // each node on a file system of its own
	clocks          // a binary built with the tag chaos
	cgroups         // writable control groups
)

// injured is a fault at work.
type injured struct {
	target string // the nodes it is on
	leader bool   // one of them led
	hold   time.Duration
	// struck is when it took effect, on the history's clock; 0: when Inject
	// returned.
	struck int64
	// heal ends the fault and gives the proof that it had an effect; "" is none.
	// It must leave the nodes running, though not yet ready.
	heal func(ctx context.Context) (proof string, err error)
}

// rig is what faults work on.
type rig struct {
	nodes   *Nodes
	fabric  Fabric
	history *History
	dir     string // of the run
}

// victim picks the node to hurt: the leader three times of five.
func (r *rig) victim(ctx context.Context, rng *rand.Rand) (n *Node, leads bool) {
	leader := r.nodes.leader(ctx)
	all := r.nodes.All
	wantLeader, pick := rng.IntN(5) < 3, rng.IntN(len(all))
	if wantLeader && leader != nil {
		return leader, true
	}
	if all[pick] == leader && !wantLeader {
		pick = (pick + 1) % len(all)
	}
	return all[pick], all[pick] == leader
}

func (r *rig) place(n *Node) int { return slices.Index(r.nodes.All, n) }

// between gives a time from lo to hi, by the seed.
func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(rng.Int64N(int64(hi-lo)+1))
}

// Faults gives every kind, in the order of the documents.
func Faults() []*Fault {
	return slices.Concat(processFaults, linkFaults, networkFaults, diskFaults, damageFaults, limitFaults, clockFaults)
}

// FaultNames gives the names of all kinds.
func FaultNames() []string {
	var names []string
	for _, f := range Faults() {
		names = append(names, f.Name)
	}
	return names
}

// The sets that stand for lists of faults.
var faultSets = map[string]func(*Fault) bool{
	"basic": func(f *Fault) bool { return !f.Root && f.Needs <= byProxies && !slices.Contains(damageFaults, f) },
	"links": func(f *Fault) bool { return f.Needs == byProxies },
	"net": func(f *Fault) bool {
		return f.Needs == namespaces || slices.Contains(linkFaults, f) && f.Needs == anything
	},
	"disk":   func(f *Fault) bool { return slices.Contains(diskFaults, f) },
	"power":  func(f *Fault) bool { return strings.HasPrefix(f.Name, "powercut") },
	"damage": func(f *Fault) bool { return slices.Contains(damageFaults, f) },
	"limit":  func(f *Fault) bool { return slices.Contains(limitFaults, f) },
	"clock":  func(f *Fault) bool { return f.Needs == clocks },
}

// ParseFaults reads a list of names and of sets: basic, links, net, disk, power,
// damage, limit, clock.
func ParseFaults(list string) ([]*Fault, error) {
	var out []*Fault
	add := func(f *Fault) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || name == "none" {
			continue
		}
		in, isSet := faultSets[name]
		found := false
		for _, f := range Faults() {
			if f.Name == name || isSet && in(f) {
				add(f)
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("no fault is named %q: use %s, or a set: basic, links, net, disk, power, damage, limit, clock", name, strings.Join(FaultNames(), ", "))
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	if has(out, byProxies) && has(out, namespaces) {
		return nil, fmt.Errorf("faults %s need proxies on loopback and %s network namespaces: make two runs",
			namesWith(out, byProxies), namesWith(out, namespaces))
	}
	return out, nil
}

func has(faults []*Fault, n need) bool {
	return slices.ContainsFunc(faults, func(f *Fault) bool { return f.Needs == n })
}

func namesWith(faults []*Fault, n need) string {
	var names []string
	for _, f := range faults {
		if f.Needs == n {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}
