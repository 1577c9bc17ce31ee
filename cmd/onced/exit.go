package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onced/onced/cluster"
	"github.com/onced/onced/idem"
)

// The exit codes of every command, and of server beyond them.
const (
	exitOK          = 0 // also a replayed outcome
	exitInternal    = 1 // a fault of ours, or a failed check
	exitUsage       = 2
	exitUnavailable = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitInFlight    = 6
	exitUncertain   = 7
	exitDenied      = 8 // or over quota
	exitExpired     = 9
	exitInterrupted = 130

	exitRefused = cluster.ExitRefused // server: refused to start
)

// exitError is a failure with its exit code, one sentence, and what to type
// next ("" when there is nothing to say).
type exitError struct {
	code int
	msg  string
	hint string
}

func (e *exitError) Error() string { return e.msg }

// usagef is a mistake in the command line; hint-less, since report names the
// command's help.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, msg: fmt.Sprintf(format, args...)}
}

// refusef is a server that will not start.
func refusef(format string, args ...any) error {
	return &exitError{code: exitRefused, msg: fmt.Sprintf(format, args...)}
}

// haltExit turns why a node may not start or go on into the end of the process.
func haltExit(nodeID string, err error) error {
	msg := nodeID + ": " + err.Error()
	if halt, ok := errors.AsType[*cluster.HaltError](err); ok {
		return &exitError{code: halt.ExitCode, msg: msg}
	}
	return &exitError{code: exitInternal, msg: msg}
}

// report prints err for people, on stderr, and gives the exit code. An error
// that is not ours comes from cobra, and is one of usage.
func (a *app) report(cmd *cobra.Command, err error) int {
	if quiet, ok := errors.AsType[*silentExit](err); ok {
		return quiet.code
	}
	e, ok := errors.AsType[*exitError](err)
	if !ok {
		e = &exitError{code: exitUsage, msg: err.Error()}
	}
	if e.code == exitUsage && e.hint == "" {
		e.hint = "see: " + cmd.CommandPath() + " --help"
	}
	fmt.Fprintf(a.stderr, "onced: %s\n", oneParagraph(e.msg))
	if e.hint != "" {
		fmt.Fprintf(a.stderr, "  %s\n", e.hint)
	}
	return e.code
}

// oneParagraph keeps cobra's own suggestion lines readable and drops its empty
// ones.
func oneParagraph(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n\n", "\n")
}

var exitByCode = map[idem.Code]int{
	idem.CodeKeyMissing:           exitUsage,
	idem.CodeKeyInvalid:           exitUsage,
	idem.CodeTokenMissing:         exitUsage,
	idem.CodeInvalidRequest:       exitUsage,
	idem.CodeRequestTooLarge:      exitUsage,
	idem.CodeUnsupportedMediaType: exitUsage,

	idem.CodeUnavailable: exitUnavailable,
	idem.CodeOverloaded:  exitUnavailable,

	idem.CodeNotFound:          exitNotFound,
	idem.CodeNamespaceNotFound: exitNotFound,
	idem.CodeNamespaceRetired:  exitNotFound,

	idem.CodeKeyConflict:       exitConflict,
	idem.CodeCancelled:         exitConflict,
	idem.CodeDuplicate:         exitConflict,
	idem.CodeAttemptSpent:      exitConflict,
	idem.CodeStaleToken:        exitConflict,
	idem.CodeAlreadySettled:    exitConflict,
	idem.CodeStaleVersion:      exitConflict,
	idem.CodeNamespaceNotEmpty: exitConflict,

	idem.CodeInFlight:      exitInFlight,
	idem.CodeUncertain:     exitUncertain,
	idem.CodeUnauthorized:  exitDenied,
	idem.CodeForbidden:     exitDenied,
	idem.CodeQuotaExceeded: exitDenied,
	idem.CodeKeyExpired:    exitExpired,

	// The wrong server, or one of another version: nothing the caller can
	// mend in the command line.
	idem.CodeRouteNotFound:    exitInternal,
	idem.CodeMethodNotAllowed: exitInternal,
	idem.CodeInternal:         exitInternal,
}

// exitFor gives the exit code of a problem; of a code that this binary does
// not know (a newer server), by its status.
func exitFor(code idem.Code, status int) int {
	if exit, ok := exitByCode[code]; ok {
		return exit
	}
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return exitUsage
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return exitDenied
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
		return exitConflict
	case http.StatusGone:
		return exitExpired
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return exitUnavailable
	}
	return exitInternal
}

// exitOf gives the exit code of an error of apiClient.do.
func exitOf(err error) int {
	if p, ok := errors.AsType[*problemError](err); ok {
		return exitFor(p.problem.Code, p.status)
	}
	if _, ok := errors.AsType[*unreachableError](err); ok {
		return exitUnavailable
	}
	return exitInternal
}
