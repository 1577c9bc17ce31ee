//go:build mutant_nocrc

package cluster

const mutant = "nocrc"
