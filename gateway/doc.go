// Package gateway puts a cluster in front of HTTP services: a request that
// carries an idempotency key has its effect once, and whoever sends it again is
// given the first answer.
//
// A Guard has rules: for which methods and paths, where the key is found, what
// an answer means. Guard.Middleware wraps a handler of the same process;
// Guard.Proxy guards any HTTP service from outside, with no code.
//
// For each guarded request the Guard reads the key, reserves it, calls the
// handler or the upstream once, and settles by what came of it: committed,
// failed, released, or left as it is, which makes the key uncertain when its
// lease ends. When the cluster does not decide, the answer is 503 and nothing
// is called. What is in doubt is never run again by itself.
package gateway
