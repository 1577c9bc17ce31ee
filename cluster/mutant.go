//go:build !(mutant_fastpath || mutant_readfence || mutant_await || mutant_onedelete || mutant_nowatchdog || mutant_nocrc || mutant_nomarker || mutant_shorttrail || mutant_ackearly || mutant_newattempt || mutant_stepclock || mutant_nosync || mutant_replaysapply || mutant_relayedfence || mutant_olddisk)

package cluster

// mutant names the one safeguard that a build with tag mutant_NAME goes
// without, to show that some test fails then; scripts/mutants.sh builds each.
// It is a constant: in a normal build the seams cost nothing.
const mutant = ""
