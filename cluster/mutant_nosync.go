//go:build mutant_nosync

package cluster

const mutant = "nosync"
