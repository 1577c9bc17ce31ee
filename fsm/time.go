package fsm

import "time"

// Time is log time: microseconds since the Unix epoch. It enters the machine
// only through log entries and never falls. 0 means "not set".
type Time int64

// TimeOf gives t as log time, cut to the microsecond.
func TimeOf(t time.Time) Time { return Time(t.UnixMicro()) }

// Add gives t + d, cut to the microsecond.
func (t Time) Add(d time.Duration) Time { return t + Time(d/time.Microsecond) }

// Sub gives t - u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

// Std gives t as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Micros gives d in whole microseconds, as commands and snapshots carry
// durations.
func Micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// Duration turns microseconds of a command or snapshot into a duration.
func Duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
