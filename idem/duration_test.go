package idem

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const least, most = time.Millisecond, 365 * 24 * time.Hour
	for s, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "90s": 90 * time.Second, "1.5s": 1500 * time.Millisecond, "24h": 24 * time.Hour,
		"1h30m": 90 * time.Minute, "8760h": most, "1m0s": time.Minute, "1000us": time.Millisecond,
	} {
		if got, err := ParseDuration("ttl", s, least, most); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", s, got, err, want)
		}
	}
	for s, part := range map[string]string{
		"":              "not a duration",
		"90":            "unit is missing",
		"1.5":           "unit is missing",
		"7d":            "168h",
		"soon":          "not a duration",
		" 1s":           "not a duration",
		"1s ":           "not a duration",
		"-1s":           "negative",
		"-0s":           "negative",
		"0":             "shortest allowed, 1ms",
		"0s":            "shortest allowed, 1ms",
		"999us":         "shortest allowed, 1ms",
		"8760h0m0.001s": "longest allowed, 8760h",
		"2562048h":      "not a duration", // overflows int64 nanoseconds
		"1e3s":          "not a duration",
		"PT1M":          "not a duration",
		"9999999999999999999999999999999999999999999999h": "...",
	} {
		got, err := ParseDuration("ttl", s, least, most)
		wantCode(t, s, err, CodeInvalidRequest, "ttl is ", part)
		if got != 0 {
			t.Errorf("%q: %v beside an error", s, got)
		}
	}
	// The edges themselves are in.
	if _, err := ParseDuration("wait", "0s", 0, time.Minute); err != nil {
		t.Error(err)
	}
	_, err := ParseDuration("wait", "-1ns", math.MinInt64, math.MaxInt64)
	wantCode(t, "negative whatever the bounds", err, CodeInvalidRequest, "wait")
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "1ns", 1500 * time.Microsecond: "1.5ms", 1500 * time.Millisecond: "1.5s",
		10 * time.Second: "10s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 24 * time.Hour: "24h",
		90 * time.Minute: "1h30m", 100*time.Hour + 5*time.Second: "100h5s", 10*time.Hour + 10*time.Minute + 10*time.Second: "10h10m10s",
		time.Hour + 100*time.Millisecond: "1h0.1s", -90 * time.Minute: "-1h30m",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for d := time.Duration(1); d > 0 && d < math.MaxInt64/7; d = d*7 + 3 {
		for _, d := range []time.Duration{d, d.Truncate(time.Second), d.Truncate(time.Minute), d.Truncate(time.Hour)} {
			if back, err := time.ParseDuration(FormatDuration(d)); err != nil || back != d {
				t.Errorf("%d: %q reads back as %d, %v", d, FormatDuration(d), back, err)
			}
		}
	}
}
