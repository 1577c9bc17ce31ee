//go:build mutant_olddisk

package cluster

const mutant = "olddisk"
