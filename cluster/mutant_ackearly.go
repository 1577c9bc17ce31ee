//go:build mutant_ackearly

package cluster

const mutant = "ackearly"
