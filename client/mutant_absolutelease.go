//go:build mutant_absolutelease

package client

const mutant = "absolutelease"
