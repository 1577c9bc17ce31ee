package fsm

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onced/onced/fsm/fsmpb"
)

// The hot steps of the machine. What is measured is as the HTTP edge makes it:
// 40-byte keys, 64-byte responses, digests, UUIDs. cpu-ns/op is processor time,
// the collector's included, for machines on which something else runs.

var live = flag.Int("live", 100_000, "records in the larger of the benchmarked machines")

func sizes() []int { return []int{10_000, *live} }

// stopwatch counts processor time while the benchmark's timer runs.
type stopwatch struct {
	b   *testing.B
	sum time.Duration
}

func startWatch(b *testing.B) *stopwatch {
	b.ReportAllocs()
	w := &stopwatch{b: b}
	b.Cleanup(func() { b.ReportMetric(float64(w.sum.Nanoseconds())/float64(max(1, b.N)), "cpu-ns/op") })
	b.ResetTimer()
	b.StopTimer()
	return w
}

func (w *stopwatch) run(f func()) {
	w.b.StartTimer()
	began := processorTime()
	f()
	w.sum += processorTime() - began
	w.b.StopTimer()
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maker makes commands that do not repeat.
type maker struct{ rnd *rand.Rand }

func newMaker(seed uint64) maker { return maker{rand.New(rand.NewPCG(seed, 0))} }

func (k maker) hex(n int) string {
	b := make([]byte, n/2)
	for i := range b {
		b[i] = byte(k.rnd.Uint32())
	}
	return hex.EncodeToString(b)
}

func (k maker) reserve() *Command {
	id := k.hex(32)
	return &Command{
		Op: fsmpb.Op_OP_RESERVE, Namespace: "default", Key: "order-" + k.hex(34), Operation: "pay",
		AttemptId:     id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:],
		RequestDigest: "sha256-" + k.hex(64),
	}
}

func (k maker) settle(op fsmpb.Op, r *Record) *Command {
	c := &Command{Op: op, Namespace: "default", Key: r.Key, Token: r.Token}
	switch op {
	case fsmpb.Op_OP_COMMIT:
		c.OutcomeDigest, c.HasResponse, c.Response = "sha256-"+k.hex(64), true, []byte(`{"id":"`+k.hex(54)+`"}`)
	case fsmpb.Op_OP_FAIL:
		c.OutcomeDigest, c.ErrorCode = "sha256-"+k.hex(64), "declined"
	}
	return c
}

// bench is a machine with records committed a millisecond apart a batch.
type bench struct {
	m    *Machine
	k    maker
	now  Time
	keys []*Command // the reserves of some of them
}

func (x *bench) apply(commands ...*Command) []Result {
	x.now += 1000
	return x.m.Apply(x.m.Index()+1, &Entry{TimeUs: int64(x.now), Commands: commands})
}

func (x *bench) reserved(n int) (commands []*Command, recs []*Record) {
	for range n {
		commands = append(commands, x.k.reserve())
	}
	for _, res := range x.apply(commands...) {
		recs = append(recs, res.Record)
	}
	return commands, recs
}

func (x *bench) settled(op fsmpb.Op, recs []*Record) (commands []*Command) {
	for _, r := range recs {
		commands = append(commands, x.k.settle(op, r))
	}
	return commands
}

func newBench(n int) *bench {
	x := &bench{m: New(), k: newMaker(uint64(n)), now: t0}
	for n > 0 {
		commands, recs := x.reserved(min(n, 512))
		x.apply(x.settled(fsmpb.Op_OP_COMMIT, recs)...)
		if n -= len(commands); len(x.keys) < 100_000 {
			x.keys = append(x.keys, commands...)
		}
	}
	return x
}

var benches = map[int]*bench{}

// benchOf gives a machine that benchmarks share: they add to it.
func benchOf(n int) *bench {
	if benches[n] == nil {
		benches[n] = newBench(n)
	}
	return benches[n]
}

func atSizes(b *testing.B, f func(b *testing.B, x *bench)) {
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("live=%d", n), func(b *testing.B) { f(b, benchOf(n)) })
	}
}

func entry512() *Entry {
	k := newMaker(1)
	e := &Entry{TimeUs: int64(t0)}
	for range 256 {
		c := k.reserve()
		e.Commands = append(e.Commands, c, k.settle(fsmpb.Op_OP_COMMIT, &Record{Key: c.Key, Token: uint64(t0)}))
	}
	return e
}

func BenchmarkEntryEncode512(b *testing.B) {
	e := entry512()
	startWatch(b).run(func() {
		for range b.N {
			if _, err := EncodeEntry(e); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEntryDecode512(b *testing.B) {
	raw, _ := EncodeEntry(entry512())
	b.SetBytes(int64(len(raw)))
	startWatch(b).run(func() {
		for range b.N {
			if _, err := DecodeEntry(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEntryCheck512(b *testing.B) {
	raw, _ := EncodeEntry(entry512())
	b.SetBytes(int64(len(raw)))
	startWatch(b).run(func() {
		for range b.N {
			if err := CheckEntry(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkApply is the machine's part of one command, each in an entry of its
// own.
func BenchmarkApply(b *testing.B) {
	one := func(x *bench, w *stopwatch, commands []*Command) {
		w.run(func() {
			for _, c := range commands {
				if res := x.apply(c); res[0].Code != "" {
					b.Fatal(res[0])
				}
			}
		})
	}
	const chunk = 2048
	for _, op := range []struct {
		name     string
		commands func(x *bench, n int) []*Command
	}{
		{"reserve", func(x *bench, n int) (out []*Command) {
			for range n {
				out = append(out, x.k.reserve())
			}
			return out
		}},
		{"duplicate", func(x *bench, n int) (out []*Command) {
			for range n {
				out = append(out, x.keys[x.k.rnd.IntN(len(x.keys))])
			}
			return out
		}},
		{"commit", func(x *bench, n int) []*Command { _, recs := x.reserved(n); return x.settled(fsmpb.Op_OP_COMMIT, recs) }},
		{"fail", func(x *bench, n int) []*Command { _, recs := x.reserved(n); return x.settled(fsmpb.Op_OP_FAIL, recs) }},
		{"release", func(x *bench, n int) []*Command {
			_, recs := x.reserved(n)
			return x.settled(fsmpb.Op_OP_RELEASE, recs)
		}},
		{"extend", func(x *bench, n int) []*Command { _, recs := x.reserved(n); return x.settled(fsmpb.Op_OP_EXTEND, recs) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			atSizes(b, func(b *testing.B, x *bench) {
				w := startWatch(b)
				for left := b.N; left > 0; left -= chunk {
					one(x, w, op.commands(x, min(left, chunk)))
				}
			})
		})
	}
}

// BenchmarkApplyEntry512 applies what a busy leader makes, 512 reserves in one
// entry and 512 commits in the next; an op is one of the 1,024 commands.
func BenchmarkApplyEntry512(b *testing.B) {
	atSizes(b, func(b *testing.B, x *bench) {
		w := startWatch(b)
		for left := b.N; left > 0; left -= 1024 {
			var reserves []*Command
			for range min(512, (left+1)/2) {
				reserves = append(reserves, x.k.reserve())
			}
			var recs []*Record
			w.run(func() {
				for _, res := range x.apply(reserves...) {
					recs = append(recs, res.Record)
				}
			})
			commits := x.settled(fsmpb.Op_OP_COMMIT, recs)
			w.run(func() { x.apply(commits...) })
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	atSizes(b, func(b *testing.B, x *bench) {
		startWatch(b).run(func() {
			for i := range b.N {
				if _, ok := x.m.Replay(x.keys[(i*7919)%len(x.keys)], x.now); !ok {
					b.Fatal("no")
				}
			}
		})
	})
}

func BenchmarkRecord(b *testing.B) {
	atSizes(b, func(b *testing.B, x *bench) {
		startWatch(b).run(func() {
			for i := range b.N {
				if _, ok := x.m.Record("default", x.keys[(i*7919)%len(x.keys)].Key); !ok {
					b.Fatal("no")
				}
			}
		})
	})
}

func BenchmarkStats(b *testing.B) {
	x := benchOf(sizes()[1])
	startWatch(b).run(func() {
		for range b.N {
			x.m.Stats(x.now)
		}
	})
}

func BenchmarkView(b *testing.B) {
	atSizes(b, func(b *testing.B, x *bench) {
		startWatch(b).run(func() {
			for range b.N {
				x.m.View()
			}
		})
	})
}

// BenchmarkApplyBehindView is the first reserves after a view: they copy what
// the view shares.
func BenchmarkApplyBehindView(b *testing.B) {
	x := benchOf(sizes()[1])
	w := startWatch(b)
	for range b.N {
		x.m.View()
		c := x.k.reserve()
		w.run(func() { x.apply(c) })
	}
}

func BenchmarkSnapshotWrite(b *testing.B) {
	atSizes(b, func(b *testing.B, x *bench) {
		v := x.m.View()
		startWatch(b).run(func() {
			for range b.N {
				n, err := v.WriteTo(io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
			}
		})
	})
}

func BenchmarkSnapshotRead(b *testing.B) {
	atSizes(b, func(b *testing.B, x *bench) {
		raw := snapshotOf(b, x.m)
		b.SetBytes(int64(len(raw)))
		startWatch(b).run(func() {
			for range b.N {
				if _, err := ReadSnapshot(bytes.NewReader(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkSweep is one sweep of the default limit with everything due, first
// for the response and then for the record.
func BenchmarkSweep(b *testing.B) {
	for _, what := range []string{"tombstone", "tombstone/restored", "remove", "remove/restored"} {
		b.Run(what, func(b *testing.B) {
			what, restart := strings.CutSuffix(what, "/restored")
			raw := snapshotOf(b, benchOf(sizes()[1]).m)
			var m *Machine
			var worst time.Duration
			w := startWatch(b)
			for range b.N {
				for m == nil || m.store.records.Len() < 2*DefaultSweepLimit || what == "tombstone" && m.spaces["default"].dropped[Committed] > int64(sizes()[1])-DefaultSweepLimit {
					if restart { // its pages are in key order, not in that of expiry
						m = restored(b, raw)
					} else {
						m = newBench(sizes()[1]).m
					}
					m.Apply(m.Index()+1, &Entry{TimeUs: int64(m.now.Add(map[string]time.Duration{"tombstone": 25, "remove": 240}[what] * time.Hour))})
				}
				before := w.sum
				w.run(func() { m.Apply(m.Index()+1, &Entry{Commands: []*Command{sweep(0)}}) })
				worst = max(worst, w.sum-before)
			}
			b.ReportMetric(float64(worst.Nanoseconds()), "worst-cpu-ns")
		})
	}
}

// BenchmarkMemory is the live heap a record takes, and what is left of it when
// its ttl is over; -live says at how many.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		before := heap()
		x := newBench(sizes()[1])
		x.keys = nil
		n := float64(x.m.store.records.Len())
		began := time.Now()
		b.ReportMetric(float64(heap()-before)/n, "B/record")
		b.ReportMetric(float64(time.Since(began).Milliseconds())/2, "gc-ms")
		x.now = x.now.Add(25 * time.Hour)
		for x.apply(sweep(MaxSweep))[0].Remaining > 0 {
		}
		b.ReportMetric(float64(heap()-before)/n, "B/tombstone")
		runtime.KeepAlive(x)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
