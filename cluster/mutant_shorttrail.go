//go:build mutant_shorttrail

package cluster

const mutant = "shorttrail"
