//go:build !(mutant_anytoken || mutant_wallclock || mutant_maporder || mutant_sweepversion || mutant_anyoperation || mutant_nospaces || mutant_nocopy || mutant_notombstone || mutant_attemptfirst || mutant_resolveany || mutant_ttlreserve || mutant_localrerun || mutant_horizonleft || mutant_tokencounter || mutant_policynow || mutant_sweepuncertain || mutant_entrycrc)

package fsm

// mutant names the one safeguard that a build with tag mutant_NAME goes
// without, to show that some test fails then; scripts/mutants.sh builds each.
// It is a constant: in a normal build the seams cost nothing.
const mutant = ""

func mutantNow() Time { return 0 }
