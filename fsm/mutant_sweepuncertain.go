//go:build mutant_sweepuncertain

package fsm

const mutant = "sweepuncertain"

func mutantNow() Time { return 0 }
