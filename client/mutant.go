//go:build !mutant_absolutelease

package client

// mutant names the one safeguard that a build with tag mutant_NAME goes
// without, to show that some test fails then; scripts/mutants.sh builds each.
// It is a constant: in a normal build the seams cost nothing.
const mutant = ""
