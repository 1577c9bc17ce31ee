package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/onced/onced/idem"
)

// correlationOf takes the caller's X-Correlation-ID, or makes one: a malformed
// one is no reason to refuse a call.
func correlationOf(r *http.Request, newID func() string) string {
	if lines := r.Header["X-Correlation-Id"]; len(lines) == 1 && idem.CheckCorrelationID(lines[0]) == nil {
		return lines[0]
	}
	return newID()
}

// finish ends every call: a panic becomes a 500 that tells nothing of the
// inside, the answer is counted, and the request is logged.
func (c *call) finish() {
	if cause := recover(); cause != nil {
		if cause == http.ErrAbortHandler {
			panic(cause)
		}
		c.srv.log.Error("panic while serving", "correlation_id", c.correlation, "operation", c.operation,
			"panic", cause, "stack", string(debug.Stack()))
		if c.sent {
			panic(http.ErrAbortHandler) // half an answer is none: cut the connection
		}
		c.send(c.refuse(&idem.Error{Code: idem.CodeInternal}))
	}
	took := c.srv.now().Sub(c.started)
	c.srv.metrics.count(c.operation, c.outcome, c.namespace)
	c.srv.metrics.observe(c.operation, took)
	if !c.srv.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	c.srv.log.Debug("request", "operation", c.operation, "status", c.status, "outcome", c.outcome,
		"namespace", c.namespace, "key_hash", keyHash(c.key), "took", took, "correlation_id", c.correlation)
}

// keyHash stands for a key in logs: keys name customers' orders.
func keyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
