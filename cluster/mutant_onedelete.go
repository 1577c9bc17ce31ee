//go:build mutant_onedelete

package cluster

const mutant = "onedelete"
