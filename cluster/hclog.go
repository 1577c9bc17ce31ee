package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// newHclog gives raft, its transport and its snapshot store one logger that ends
// in slog. Left alone each of them writes DEBUG to standard error.
func newHclog(l *slog.Logger) hclog.Logger {
	h := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	h.RegisterSink(slogSink{l})
	return h
}

// slogSink is told of everything, at any level; slog decides what is kept.
type slogSink struct{ log *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s slogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	ctx, to := context.Background(), slogLevel(level)
	if !s.log.Enabled(ctx, to) {
		return
	}
	if name == "" {
		name = "raft"
	}
	attrs := append(make([]slog.Attr, 0, len(args)/2+2), slog.String("component", name))
	for ; len(args) >= 2; args = args[2:] {
		key := fmt.Sprint(args[0])
		if key == "node" { // the logger says already which node this is
			key = "raft"
		}
		attrs = append(attrs, slog.Any(key, plain(args[1])))
	}
	if len(args) == 1 { // a value without a key
		attrs = append(attrs, slog.Any("extra", plain(args[0])))
	}
	s.log.LogAttrs(ctx, to, msg, attrs...)
}

// plain undoes hclog's own deferred formats, which slog does not know.
func plain(v any) any {
	switch v := v.(type) {
	case hclog.Format:
		if format, ok := v[0].(string); ok {
			return fmt.Sprintf(format, v[1:]...)
		}
		return fmt.Sprint(v...)
	case error:
		return v.Error()
	case fmt.Stringer: // its fields say nothing, and as JSON it would be {}
		return v.String()
	case hclog.Hex, hclog.Octal, hclog.Binary, hclog.Quote:
		return fmt.Sprint(v)
	}
	return v
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info, hclog.NoLevel:
		return slog.LevelInfo
	case hclog.Debug:
		return slog.LevelDebug
	default:
		return slog.LevelDebug - 4
	}
}
