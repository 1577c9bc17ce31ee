//go:build mutant_nospaces

package fsm

const mutant = "nospaces"

func mutantNow() Time { return 0 }
