//go:build mutant_replaysapply

package cluster

const mutant = "replaysapply"
