package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/onced/onced/idem"
)

// called says what a call was about, for the hint after an error.
type called struct {
	verb      string // reserve, commit, ...
	namespace string
	key       string
	attemptID string // reserve: what a repeat must carry
}

// onced writes a command line about the same namespace.
func (c called) command(words string) string {
	if c.namespace != "" && c.namespace != defaultNamespace {
		words += " -n " + c.namespace
	}
	return "onced " + words
}

// callError turns an error of apiClient.do into the end of the command: the
// problem in words, its exit code, and what to type next. With -o json the
// problem's body goes to stdout, for programs.
func (a *app) callError(err error, c called, out output) error {
	if own, ok := errors.AsType[*exitError](err); ok {
		return own
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitInterrupted, "interrupted", a.repeatHint(c, true)}
	}
	if u, ok := errors.AsType[*unreachableError](err); ok {
		hint := "is a cluster running there? Start one with: onced dev"
		if u.sent {
			hint = a.repeatHint(c, true)
		}
		return &exitError{exitUnavailable, fmt.Sprintf("no node answered: %v", u.err), hint}
	}
	p, ok := errors.AsType[*problemError](err)
	if !ok {
		return &exitError{exitInternal, err.Error(), ""}
	}
	if out.json && len(p.body) > 0 {
		fmt.Fprintf(a.stdout, "%s\n", trimNewline(p.body))
	}
	return &exitError{
		exitFor(p.problem.Code, p.status),
		fmt.Sprintf("%s (%s)", p.problem.Detail, p.problem.Code),
		a.problemHint(p, c),
	}
}

// repeatHint says how to ask again without running twice.
func (a *app) repeatHint(c called, unknown bool) string {
	switch {
	case c.verb == "reserve" && unknown:
		return "it may have been decided: ask again with the same --attempt-id " + c.attemptID
	case c.verb == "reserve":
		return "ask again, best with the same --attempt-id " + c.attemptID
	case c.verb == "ns set":
		return "look what it is now, and set again if need be: onced ns get " + c.namespace
	case c.verb == "commit" || c.verb == "fail" || c.verb == "release" || c.verb == "extend" || c.verb == "resolve":
		return "repeat the same command: with the same --token it changes nothing twice"
	}
	if c.verb == "cancel" || c.verb == "sweep" {
		return "repeat the same command: it changes nothing twice"
	}
	return ""
}

func (a *app) problemHint(p *problemError, c called) string {
	look := "look at it: " + c.command("key get "+c.key)
	switch p.problem.Code {
	case idem.CodeUnavailable, idem.CodeOverloaded:
		return a.repeatHint(c, p.problem.Applied != idem.AppliedNo)
	case idem.CodeKeyMissing, idem.CodeKeyInvalid:
		return "a key is 8 to 256 of A-Z a-z 0-9 . _ : -"
	case idem.CodeKeyConflict:
		return "use another key for another request; " + look
	case idem.CodeInFlight:
		if c.verb == "reserve" {
			return fmt.Sprintf("wait for its outcome by asking again with --wait 30s --attempt-id %s", c.attemptID)
		}
		return look
	case idem.CodeUncertain:
		if c.verb == "cancel" || c.verb == "reserve" {
			return "its holder may have run: find out, then say so: " + c.command("resolve "+c.key+" --token TOKEN --verdict committed|failed|not_applied --reason WHY --actor YOU") + "\n  " + look
		}
		return look
	case idem.CodeNamespaceRetired:
		return "its name is never given out again: take another; list them with: onced ns ls"
	case idem.CodeNamespaceNotEmpty:
		return "let its records expire, or drop them with their outcomes: onced ns rm " + c.namespace + " --force"
	case idem.CodeAttemptSpent:
		return "this attempt gave the key back: leave --attempt-id out to make a new one"
	case idem.CodeStaleVersion:
		if c.verb == "ns set" {
			return "somebody changed it meanwhile: look at it, and set again: onced ns get " + c.namespace
		}
		return look
	case idem.CodeStaleToken, idem.CodeAlreadySettled, idem.CodeDuplicate, idem.CodeCancelled, idem.CodeKeyExpired:
		return look
	case idem.CodeNotFound:
		if c.verb == "resolve" || c.verb == "get" {
			return "list what is there: " + c.command("key ls")
		}
		return "claim it first: " + c.command("reserve "+c.key)
	case idem.CodeNamespaceNotFound:
		return "check the name: onced ns ls; namespaces are made first: onced ns set " + c.namespace
	}
	if p.status == http.StatusTooManyRequests {
		return "the namespace is full: onced sweep, or raise its quota: onced ns set " + c.namespace + " --max-records N"
	}
	if p.problem.Code == idem.CodeInvalidRequest || p.status == http.StatusInternalServerError {
		return ""
	}
	if _, known := findExplanation(string(p.problem.Code)); known {
		return "see: onced explain " + string(p.problem.Code)
	}
	return ""
}

func trimNewline(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}
