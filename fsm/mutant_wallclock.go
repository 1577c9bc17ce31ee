//go:build mutant_wallclock

package fsm

import "time"

const mutant = "wallclock"

func mutantNow() Time { return TimeOf(time.Now()) }
