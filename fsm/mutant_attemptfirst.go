//go:build mutant_attemptfirst

package fsm

const mutant = "attemptfirst"

func mutantNow() Time { return 0 }
