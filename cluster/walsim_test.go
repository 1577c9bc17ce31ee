package cluster

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// simWAL is a segmented log on a disk in memory, for the simulation: between two
// lives of a node its power goes, and it is opened as after any crash. Settings
// and snapshots are the node's own.
type simWAL struct {
	disk *crashDisk
	p    *power
	*walStore
}

func newSimWAL(seed uint64) *simWAL {
	return &simWAL{disk: &crashDisk{
		rng: rand.New(rand.NewPCG(seed, 9)), files: map[string]*crashFile{}, ghost: map[string]*crashFile{}, conf: map[string][]byte{}, left: -1,
	}}
}

func (w *simWAL) reopen(t *testing.T, snaps raft.SnapshotStore) {
	w.end()
	if w.p != nil {
		w.p.cut()
	}
	w.p = &power{disk: w.disk}
	damaged := func(err error) {
		if !errors.Is(err, errPower) {
			t.Errorf("log: %v", err)
		}
	}
	var err error
	w.walStore, _, err = openWAL(walConfig{
		dir: "wal", files: w.p, size: 64 << 10, logger: hclog.NewNullLogger(),
		stable: &stableStore{inner: crashConf{p: w.p}, guard: storeGuard{onDamage: damaged}},
		newest: func() (uint64, error) {
			list, err := snaps.List()
			if err != nil || len(list) == 0 {
				return 0, err
			}
			return list[0].Index, nil
		},
	})
	if err != nil {
		t.Fatalf("log: %v", err)
	}
}

// end ends what is left of the old process, without a mark.
func (w *simWAL) end() {
	if w.walStore != nil {
		w.p.kill()
		_ = w.walStore.Close()
	}
}
