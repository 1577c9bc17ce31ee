//go:build mutant_nomarker

package cluster

const mutant = "nomarker"
