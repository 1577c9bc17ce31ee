package httpapi

import (
	"log"
	"log/slog"
	"net/http"
	"time"
)

// maxHeaderBytes is the limit of the request line and headers; net/http reads
// 4 KiB more than it is told before it answers 431.
const maxHeaderBytes = 16<<10 - 4096

// NewHTTPServer wraps h with the limits of a public port: 5 s for the headers,
// 16 KiB of them (431 beyond), 60 s idle. The body's 10 s are kept by the
// handler, call by call, because a parked wait outlives any fixed limit on
// reading; the limit on writing leaves room for the longest wait.
func NewHTTPServer(h http.Handler) *http.Server {
	timeout := DefaultRequestTimeout
	var errorLog *log.Logger
	if s, ok := h.(*Server); ok {
		timeout = s.timeout
		errorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelWarn) // not a second log format
	}
	return &http.Server{
		ErrorLog:                     errorLog,
		Handler:                      h,
		ReadHeaderTimeout:            5 * time.Second,
		WriteTimeout:                 bodyTimeout + timeout + MaxWait + 15*time.Second,
		IdleTimeout:                  60 * time.Second,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
	}
}
