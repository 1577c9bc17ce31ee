//go:build mutant_newattempt

package cluster

const mutant = "newattempt"
