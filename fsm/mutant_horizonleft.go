//go:build mutant_horizonleft

package fsm

const mutant = "horizonleft"

func mutantNow() Time { return 0 }
