//go:build mutant_await

package cluster

const mutant = "await"
