//go:build mutant_ttlreserve

package fsm

const mutant = "ttlreserve"

func mutantNow() Time { return 0 }
