package fsm

import (
	"time"

	"github.com/onced/onced/idem"
)

func refuse(code idem.Code, detail string) Result {
	return Result{Code: code, Detail: detail}
}

func refuseWith(code idem.Code, detail string, r *Record) Result {
	return Result{Code: code, Detail: detail, Record: r}
}

// refuseLate answers a command whose call is over: whoever sent it has gone,
// and a delayed copy must do nothing (semantics.md section 3).
func refuseLate() Result {
	return refuse(idem.CodeUnavailable, "the call's deadline had passed when the command was decided; nothing was done")
}

// late tells whether the deadline of c has passed. now equal to it is in time.
func late(c *Command, now Time) bool {
	return c.NotAfterUs != 0 && int64(now) > c.NotAfterUs
}

func refuseInFlight(r *Record, now Time) Result {
	res := refuseWith(idem.CodeInFlight, "an attempt holds the key", r)
	res.RetryAfter = r.LeaseExpiresAt.Sub(now)
	return res
}

func refuseUncertain(r *Record) Result {
	return refuseWith(idem.CodeUncertain, "the lease of the attempt that holds the key is over and nobody has said what became of it; its holder, a person or a probe settles it", r)
}

func refuseSettled(r *Record) Result {
	return refuseWith(idem.CodeAlreadySettled, "another outcome is recorded", r)
}

func refuseExpired(r *Record) Result {
	return refuseWith(idem.CodeKeyExpired, "the outcome is no longer kept; this is no licence to run again", r)
}

// staleVersion compares expectedVersion, after "already so" and before any
// change (semantics.md section 4).
func staleVersion(c *Command, r *Record) (Result, bool) {
	if c.ExpectedVersion == 0 || c.ExpectedVersion == r.Version {
		return Result{}, false
	}
	return refuseWith(idem.CodeStaleVersion, versions(c.ExpectedVersion, r.Version), r), true
}

// remaining gives the lease that is left at now, never below 0.
func remaining(r *Record, now Time) time.Duration {
	return max(0, r.LeaseExpiresAt.Sub(now))
}
