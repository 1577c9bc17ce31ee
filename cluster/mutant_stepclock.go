//go:build mutant_stepclock

package cluster

const mutant = "stepclock"
