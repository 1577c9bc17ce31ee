package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// member is one system that takes part.
type member struct {
	name string
	system
}

// peers is the whole comparison. All systems run from the beginning to the end,
// and one at a time is asked.
func peers(ctx context.Context, o options) error {
	dir, fsName, err := workDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &report{
		Date: time.Now().UTC().Format("2006-01-02"), Commit: o.commit, Rounds: o.rounds,
		Seconds: o.timing.measured.Seconds(), Warmup: o.timing.warmup.Seconds(),
	}
	var disk *device
	disk, r.Flushes = findDisk(dir)
	r.Machine = thisMachine(fsName, "no device that is known")
	if disk != nil {
		r.Machine.Device = disk.name
	}

	systems := map[string]system{
		nameOnced:    &onced{name: nameOnced, store: "bolt", bin: o.onced, args: strings.Fields(o.oncedArgs)},
		nameOncedWAL: &onced{name: nameOncedWAL, store: "wal", bin: o.onced, args: strings.Fields(o.oncedArgs)},
		nameEtcd:     &etcd{}, nameRedis: &redis{}, namePostgres: &postgres{},
	}
	var members []member
	for _, name := range o.systems {
		fmt.Fprintf(os.Stderr, "starting %s\n", name)
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		defer systems[name].end()
		if err := systems[name].begin(ctx, at); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Systems = append(r.Systems, systems[name].facts())
		members = append(members, member{name, systems[name]})
	}
	if err := r.idle(ctx, members, max(3*time.Second, o.timing.measured), disk); err != nil {
		return err
	}
	for round := range o.rounds {
		if err := r.round(ctx, o, dir, round, systems, disk); err != nil {
			return err
		}
	}
	return r.publish(o)
}

// findDisk gives the device under dir if it counts flushes; and how, or why not.
func findDisk(dir string) (*device, string) {
	d, err := deviceOf(dir)
	if err == nil {
		err = d.countsFlushes(dir)
	}
	if err != nil {
		return nil, "Flushes are not counted: " + err.Error() + "."
	}
	return &d, "Flushes are those that the device completed, by /proc/diskstats."
}

// idle measures what the systems take while nobody asks them, and how many
// flushes there are.
func (r *report) idle(ctx context.Context, members []member, length time.Duration, disk *device) error {
	meters := make([]*meter, len(members))
	for i, m := range members {
		meters[i] = &meter{pids: m.pids(), disk: disk}
	}
	sampleAll := func() error {
		for _, m := range meters {
			if _, err := m.cpu(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := sampleAll(); err != nil {
		return err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := sampleAll(); err != nil {
		return err
	}
	r.IdleFlushes = -1
	for i, m := range members {
		from, to := meters[i].samples[0], meters[i].samples[1]
		took := to.at.Sub(from.at).Seconds()
		r.Idle = append(r.Idle, idleUsage{m.facts().Name, (to.server - from.server).Seconds() / took})
		if disk != nil {
			r.IdleFlushes = float64(to.flushes-from.flushes) / took
		}
	}
	return nil
}

// round measures the floor and everything in the plan, once.
func (r *report) round(ctx context.Context, o options, dir string, round int, systems map[string]system, disk *device) error {
	fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	limits, err := floors(ctx, dir, o.floorFor)
	if err != nil {
		return err
	}
	r.Floors = append(r.Floors, limits)
	for _, s := range plan {
		for _, t := range s.turnsOf(o.systems, round) {
			f, err := measure(ctx, systems[t.system], t.work, s.clients, o.timing, disk, r.Machine.Cores)
			if err != nil {
				return fmt.Errorf("%s, %s at %d clients: %w", t.system, t.work, s.clients, err)
			}
			f.System, f.Round = t.system, round
			r.Figures = append(r.Figures, f)
			fmt.Fprintf(os.Stderr, "  %-16s %4d clients  %-9s %9s/s  p50 %7.2f ms  server %6.1f µs  other %2.0f %%\n",
				t.work, s.clients, t.system, thousands(f.OpsPerSecond), f.P50, f.ServerCPU, 100*f.OtherCPU)
		}
	}
	return nil
}

// tables is what stands in one block of the document.
type tables struct{ name, body string }

func (r *report) blocks() []tables {
	return []tables{
		{"machine", r.machineLines()},
		{"targets", r.targetTable()},
		{"figures", r.figureTable() + "\n" + r.errorLines()},
		{"floor", floorTable(r.Floors)},
	}
}

// publish keeps the raw figures, prints the tables, and writes them into the
// document.
func (r *report) publish(o options) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if o.json == "" {
		file, err := os.CreateTemp("", "onced-bench-peers-*.json")
		if err != nil {
			return err
		}
		file.Close()
		o.json = file.Name()
	}
	if err := os.WriteFile(o.json, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	blocks := r.blocks()
	for _, b := range blocks {
		fmt.Println(b.body)
	}
	fmt.Fprintf(os.Stderr, "raw figures: %s\n", o.json)
	if o.document == "" {
		return nil
	}
	text, err := os.ReadFile(o.document)
	if err != nil {
		return err
	}
	out := string(text)
	for _, b := range blocks {
		if out, err = intoDocument(out, b.name, b.body); err != nil {
			return err
		}
	}
	return os.WriteFile(o.document, []byte(out), 0o644)
}
