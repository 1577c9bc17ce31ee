//go:build mutant_relayedfence

package cluster

const mutant = "relayedfence"
