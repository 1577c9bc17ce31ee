package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// The faults that change files of a stopped node. Such a node must refuse to
// start, or start and answer as the others do; then its disk is put back as it
// was, unless it has run on what it had.
var damageFaults = []*Fault{
	{Name: "bitflip", About: "bits of a stopped node's log, raft.db, snapshot or identity flipped", Inject: damageWith(flipBits)},
	{Name: "truncate", About: "a stopped node's log, raft.db, snapshot or identity cut short", Inject: damageWith(truncateFile)},
	{Name: "wipe", About: "a stopped node's data removed: it must not come back as if it were new", Inject: damageWith(nil)},
}

// refuseTime is how long a damaged node may take to refuse, or to serve.
const refuseTime = 20 * time.Second

func damageWith(damage func(path string, rng *rand.Rand) (string, error)) func(context.Context, *rig, *rand.Rand) (*injured, error) {
	return func(ctx context.Context, r *rig, rng *rand.Rand) (*injured, error) {
		n, leads := r.victim(ctx, rng)
		struck := r.history.now()
		n.kill()
		backup := filepath.Join(r.dir, n.ID+".backup")
		if err := errors.Join(os.RemoveAll(backup), os.CopyFS(backup, os.DirFS(n.data()))); err != nil {
			return nil, err
		}
		what := "all data removed"
		var err error
		if damage == nil {
			err = os.RemoveAll(n.data())
		} else {
			what, err = damageOne(n.data(), damage, rng)
		}
		if err != nil {
			return nil, err
		}
		return &injured{
			struck: struck,
			target: n.ID, leader: leads,
			heal: func(ctx context.Context) (string, error) { return r.afterDamage(ctx, n, backup, what) },
		}, nil
	}
}

// damageOne picks a file of dir and damages it.
func damageOne(dir string, damage func(string, *rand.Rand) (string, error), rng *rand.Rand) (string, error) {
	snapshots, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	files := []string{filepath.Join(dir, "raft.db"), filepath.Join(dir, "raft.db"), filepath.Join(dir, "identity.json")}
	// With --log-store wal the log is in segments of their own.
	segments, _ := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	files = append(files, segments...)
	if len(snapshots) > 0 {
		newest := snapshots[len(snapshots)-1]
		description := filepath.Join(filepath.Dir(newest), "meta.json")
		files = append(files, newest, description, description+".sum")
	}
	path := files[rng.IntN(len(files))]
	done, err := damage(path, rng)
	return filepath.Base(path) + ": " + done, err
}

func flipBits(path string, rng *rand.Rand) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return "", errors.Join(err, errors.New(path+" is empty"))
	}
	used := len(b)
	if filepath.Ext(path) == ".wal" {
		// The rest of a segment is zeros, for later entries.
		used = max(1, len(bytes.TrimRight(b, "\x00")))
	}
	flips := 1 + rng.IntN(8)
	for range flips {
		b[rng.IntN(used)] ^= 1 << rng.IntN(8)
	}
	return fmt.Sprintf("%d bits flipped", flips), os.WriteFile(path, b, 0o600)
}

func truncateFile(path string, rng *rand.Rand) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	size := []int64{0, 1, 4096, 8192, info.Size() / 2, max(0, info.Size()-1)}[rng.IntN(6)]
	size = min(size, max(0, info.Size()-1))
	return fmt.Sprintf("cut from %d to %d bytes", info.Size(), size), os.Truncate(path, size)
}

// afterDamage starts the damaged node and sees what it does.
func (r *rig) afterDamage(ctx context.Context, n *Node, backup, what string) (string, error) {
	defer os.RemoveAll(backup)
	if err := r.nodes.start(n); err != nil {
		return "", err
	}
	call, cancel := context.WithTimeout(ctx, refuseTime)
	defer cancel()
	ready := false
	err := poll(call, func() (bool, error) {
		if !n.running() {
			return true, nil
		}
		_, err := r.nodes.get(call, n, "/readyz")
		ready = err == nil
		return ready, nil
	})
	switch {
	case ready:
		return what + "; harmless", nil
	case err != nil:
		// A wiped node waits to be told that it is known under another instance.
		n.kill()
		return r.putBack(n, backup, what+"; it did not serve")
	}
	code := n.process().cmd.ProcessState.ExitCode()
	if code != 70 && code != 71 && code != 78 {
		return what, fmt.Errorf("the damaged node ended with %d: %s", code, n.lastWords())
	}
	return r.putBack(n, backup, fmt.Sprintf("%s; refused with %d", what, code))
}

// putBack gives n its disk as it was before the damage. It has not voted since.
func (r *rig) putBack(n *Node, backup, proof string) (string, error) {
	// os.CopyFS alone makes files readable to all; the node's own are not.
	if err := errors.Join(os.RemoveAll(n.data()), copyPrivate(n.data(), backup)); err != nil {
		return "", err
	}
	return proof, r.nodes.start(n)
}
