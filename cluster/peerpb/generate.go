// Package peerpb holds the generated types of the inter-node protocol.
package peerpb
