package idem

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimestamp_IsTheLayouts: written by hand, the same as by the layout.
func TestTimestamp_IsTheLayouts(t *testing.T) {
	t.Parallel()
	check := func(at time.Time) {
		if got, want := Timestamp(at), at.UTC().Format(timestampLayout); got != want {
			t.Fatalf("%v: %s, want %s", at, got, want)
		}
	}
	for _, at := range []time.Time{
		{},
		time.Unix(0, 0), time.UnixMicro(-1), time.Date(2026, 11, 30, 10, 0, 0, 999_999_999, time.UTC),
		time.Date(2028, 2, 29, 23, 59, 59, 1_000_000, time.FixedZone("", 3600)), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMicro(1<<63 - 1), time.UnixMicro(-1 << 63),
	} {
		check(at)
	}
	rapid.Check(t, func(t *rapid.T) { check(time.UnixMicro(rapid.Int64().Draw(t, "µs"))) })
}

func BenchmarkTimestamp(b *testing.B) {
	at := time.Date(2026, 11, 30, 10, 0, 0, 123_456_789, time.UTC)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendTimestamp(buf[:0], at)
	}
}
