//go:build mutant_nowatchdog

package cluster

const mutant = "nowatchdog"
