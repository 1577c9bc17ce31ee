package idem

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a Go duration string ("250ms", "90s", "1h30m", "24h")
// that must lie between min and max, both included; CodeInvalidRequest, whose
// detail begins with the field. Negative durations, numbers without a unit, and
// what does not fit a time.Duration (about 292 years) are refused.
func ParseDuration(field, s string, min, max time.Duration) (time.Duration, *Error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, invalid(field + " is " + shown(s) + `, not a duration such as "250ms", "90s", "1h30m" or "24h"` + durationHint(s))
	case d < 0 || strings.HasPrefix(s, "-"):
		return 0, invalid(field + " is " + shown(s) + ": a duration cannot be negative")
	case d < min:
		return 0, invalid(fmt.Sprintf("%s is %s, less than the shortest allowed, %s", field, shown(s), FormatDuration(min)))
	case d > max:
		return 0, invalid(fmt.Sprintf("%s is %s, more than the longest allowed, %s", field, shown(s), FormatDuration(max)))
	}
	return d, nil
}

// durationHint tells what people mostly meant.
func durationHint(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return ": the unit is missing"
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(s, "d")); err == nil && n > 0 && n < 100_000 {
		return fmt.Sprintf(": days are written in hours, %dh", n*24)
	}
	return ""
}

// FormatDuration writes d as people write it: time.Duration.String without the
// parts that are zero, so "24h" and not "24h0m0s". time.ParseDuration gives the
// same d back.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return strings.Replace(s, "h0m", "h", 1)
}

// shown quotes a refused value for a detail, in ASCII and cut to a length that
// leaves the sentence readable.
func shown(s string) string {
	const longest = 40
	if len(s) > longest {
		return strconv.QuoteToASCII(s[:longest]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
