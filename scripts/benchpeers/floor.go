package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
)

// limit is one of the machine's own limits, under what any server can do.
type limit struct {
	Name      string  `json:"name"`
	P50       float64 `json:"p50Ms"`
	CPU       float64 `json:"cpuUs"`                 // a call, of this process; of the server where there is one
	ClientCPU float64 `json:"clientCpuUs,omitempty"` // a call, where there is a server
	Rate      float64 `json:"perSecond"`
}

// limitF is the unit that a reserve is counted in.
const limitF = "F: write 4 KiB into preallocated space, fdatasync"

// floors measures all limits in dir, each for about that long.
func floors(ctx context.Context, dir string, each time.Duration) ([]limit, error) {
	dir, err := os.MkdirTemp(dir, "floor")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var limits []limit
	for _, f := range []func(context.Context, string, time.Duration) (limit, error){preallocated, appended, boltOne, boltMany, echo} {
		l, err := f(ctx, dir, each)
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// repeat calls f, one call after the other, and measures the calls.
func repeat(ctx context.Context, name string, each time.Duration, f func(i int) error) (limit, error) {
	var took []time.Duration
	began, cpu := time.Now(), ownCPU()
	for time.Since(began) < each {
		if err := ctx.Err(); err != nil {
			return limit{}, err
		}
		at := time.Now()
		if err := f(len(took)); err != nil {
			return limit{}, fmt.Errorf("%s: %w", name, err)
		}
		took = append(took, time.Since(at))
	}
	n := float64(len(took))
	rate := n / time.Since(began).Seconds()
	slices.Sort(took)
	return limit{
		Name: name, P50: took[len(took)/2].Seconds() * 1e3, Rate: rate,
		CPU: (ownCPU() - cpu).Seconds() * 1e6 / n,
	}, nil
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func preallocated(ctx context.Context, dir string, each time.Duration) (limit, error) {
	const size, page = 64 << 20, 4096
	file, err := os.Create(filepath.Join(dir, "preallocated"))
	if err != nil {
		return limit{}, err
	}
	defer file.Close()
	// Written, not only reserved: a write into space that was never written has
	// to be noted in the file system's journal.
	zeros := make([]byte, 1<<20)
	for range size / len(zeros) {
		if _, err := file.Write(zeros); err != nil {
			return limit{}, err
		}
	}
	if err := file.Sync(); err != nil {
		return limit{}, err
	}
	body := make([]byte, page)
	return repeat(ctx, limitF, each, func(i int) error {
		body[0]++
		if _, err := file.WriteAt(body, int64(i*page%size)); err != nil {
			return err
		}
		return syscall.Fdatasync(int(file.Fd()))
	})
}

func appended(ctx context.Context, dir string, each time.Duration) (limit, error) {
	file, err := os.Create(filepath.Join(dir, "appended"))
	if err != nil {
		return limit{}, err
	}
	defer file.Close()
	body := make([]byte, 256)
	return repeat(ctx, "append 256 bytes, fsync", each, func(int) error {
		if _, err := file.Write(body); err != nil {
			return err
		}
		return file.Sync()
	})
}

func boltOne(ctx context.Context, dir string, each time.Duration) (limit, error) {
	return boltPuts(ctx, dir, each, 1)
}

func boltMany(ctx context.Context, dir string, each time.Duration) (limit, error) {
	return boltPuts(ctx, dir, each, 512)
}

// boltPuts commits puts as the node's log store does: keys rise, and the list of
// free pages is not written.
func boltPuts(ctx context.Context, dir string, each time.Duration, puts int) (limit, error) {
	db, err := bbolt.Open(filepath.Join(dir, fmt.Sprintf("bolt%d", puts)), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return limit{}, err
	}
	defer db.Close()
	value := make([]byte, 256)
	bucket := []byte("log")
	err = db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucket); return err })
	if err != nil {
		return limit{}, err
	}
	next := 0
	name := fmt.Sprintf("bbolt, commit of %d puts", puts)
	if puts == 1 {
		name = "bbolt, commit of 1 put"
	}
	return repeat(ctx, name, each, func(int) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			for range puts {
				next++
				if err := b.Put(fmt.Appendf(nil, "%08x", next), value); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
