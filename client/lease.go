package client

import "time"

// Lease is how long a claim is held. It counts from when the call that got it
// was sent, by this machine's monotonic clock: the cluster counted it from
// later, so it is never over before Deadline, whatever either clock shows as
// the time of day and however long the answer took (semantics.md section 1).
// The monotonic clock stands still while a machine is suspended: a holder on
// a machine that sleeps must extend before it goes on.
type Lease struct {
	sent   time.Time
	length time.Duration
}

// Length is the lease as it was granted.
func (l Lease) Length() time.Duration { return l.length }

// Deadline is when the lease must be taken for over, as a time of this
// machine with its monotonic reading: compare it with time.Now, and neither
// store it nor send it.
func (l Lease) Deadline() time.Time { return l.sent.Add(l.length) }

// Remaining is how much of the lease is left, 0 when it is over.
func (l Lease) Remaining() time.Duration { return max(0, time.Until(l.Deadline())) }

// MayStart tells whether less than 80 % of the lease is over: an effect is
// started then, else the lease is extended first.
func (l Lease) MayStart() bool { return time.Since(l.sent) < l.length/5*4 }
