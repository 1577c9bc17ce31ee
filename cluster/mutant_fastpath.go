//go:build mutant_fastpath

package cluster

const mutant = "fastpath"
