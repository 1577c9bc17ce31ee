package idem

import "time"

const timestampLayout = "2006-01-02T15:04:05.000Z"

// Timestamp writes t as the API does: RFC 3339 in UTC with milliseconds, cut,
// not rounded.
func Timestamp(t time.Time) string { return string(AppendTimestamp(nil, t)) }

// AppendTimestamp appends Timestamp(t) to b. Every answer carries several, and
// to interpret a layout costs more than the rest of writing one.
func AppendTimestamp(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, timestampLayout)
	}
	hour, minute, second := t.Clock()
	ms := t.Nanosecond() / int(time.Millisecond)
	two := func(n int) (byte, byte) { return '0' + byte(n/10), '0' + byte(n%10) }
	y1, y2 := two(year / 100)
	y3, y4 := two(year % 100)
	m1, m2 := two(int(month))
	d1, d2 := two(day)
	h1, h2 := two(hour)
	i1, i2 := two(minute)
	s1, s2 := two(second)
	return append(b, y1, y2, y3, y4, '-', m1, m2, '-', d1, d2, 'T', h1, h2, ':', i1, i2, ':', s1, s2,
		'.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}
