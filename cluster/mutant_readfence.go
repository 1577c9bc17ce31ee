//go:build mutant_readfence

package cluster

const mutant = "readfence"
