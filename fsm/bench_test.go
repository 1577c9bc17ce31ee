package fsm

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"
)

// preloaded is a machine with n committed records.
func preloaded(b *testing.B, n int) *rig {
	b.Helper()
	g := newRig(b)
	fill(g, n)
	return g
}

func BenchmarkApplyReserveCommit(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("over=%d", n), func(b *testing.B) {
			g := preloaded(b, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := fmt.Sprintf("bench-%032d", i)
				res := g.m.Apply(uint64(i), &Entry{TimeUs: int64(g.now) + int64(i), Commands: []*Command{reserve(key, "attempt-0000000001")}})
				g.m.Apply(uint64(i), &Entry{TimeUs: int64(g.now) + int64(i), Commands: []*Command{commit(key, res[0].Record.Token, "o1")}})
			}
		})
	}
}

func BenchmarkEntryCodec(b *testing.B) {
	e := &Entry{TimeUs: int64(t0)}
	for i := range 512 {
		e.Commands = append(e.Commands, commit(fmt.Sprintf("bench-%032d", i), uint64(t0), "o1"))
	}
	b.ReportAllocs()
	for b.Loop() {
		raw, _ := EncodeEntry(e)
		if _, err := DecodeEntry(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	g := preloaded(b, 100_000)
	c := reserve("order-00050000", "b")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := g.m.Replay(c, g.now); !ok {
			b.Fatal("no")
		}
	}
}

func BenchmarkView(b *testing.B) {
	g := preloaded(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		g.m.View()
	}
}

func BenchmarkStats(b *testing.B) {
	g := preloaded(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		g.m.Stats(g.now)
	}
}

func BenchmarkWriteTo(b *testing.B) {
	v := preloaded(b, 100_000).m.View()
	b.ReportAllocs()
	for b.Loop() {
		n, err := v.WriteTo(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
	}
}

func BenchmarkReadSnapshot(b *testing.B) {
	raw := snapshotOf(b, preloaded(b, 100_000).m)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadSnapshot(bytes.NewReader(raw)); err != nil {
			b.Fatal(err)
		}
	}
}

// One sweep of the default limit, with everything due.
func BenchmarkSweep(b *testing.B) {
	for _, due := range []time.Duration{24 * time.Hour, 9 * 24 * time.Hour} {
		b.Run(due.String(), func(b *testing.B) {
			raw := snapshotOf(b, preloaded(b, 100_000).m)
			var m *Machine
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%100 == 0 {
					b.StopTimer()
					m = restored(b, raw)
					b.StartTimer()
				}
				m.Apply(1, &Entry{TimeUs: int64(t0.Add(due)), Commands: []*Command{sweep(0)}})
			}
		})
	}
}
