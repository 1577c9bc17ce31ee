package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

// explained is one code as explain -o json gives it.
type explained struct {
	Code       idem.Code `json:"code"`
	Status     int       `json:"status"`
	Meaning    string    `json:"meaning"`
	Next       string    `json:"next"`
	Retryable  bool      `json:"retryable"`
	SafeNewKey bool      `json:"safeNewKey"`
	ExitCode   int       `json:"exitCode"`
}

func (e explanation) complete() explained {
	return explained{e.code, e.status, e.meaning, e.next, e.code.Retryable(), e.code.SafeNewKey(), exitFor(e.code, e.status)}
}

func (a *app) explainCommand() *cobra.Command {
	var out output
	codes := make([]string, len(explanations))
	for i, e := range explanations {
		codes[i] = string(e.code)
	}
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "What a problem's code means, and what to do about it",
		Long: `What a problem's code means, what to do about it, whether waiting helps, and
whether another key may be taken without looking. Without a CODE: all of them.
Nothing is asked of a node.`,
		Example: `  onced explain
  onced explain idempotency_uncertain
  onced explain uncertain                  # the short form will do`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: codes,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.explainAll(out)
			}
			e, ok := findExplanation(args[0])
			if !ok {
				hint := "list them with: onced explain"
				if near := nearest(args[0], codes); near != "" {
					hint = "did you mean: onced explain " + near
				}
				return &exitError{exitNotFound, "there is no code " + quote(args[0]), hint}
			}
			if out.json {
				return a.printJSON(e.complete())
			}
			return a.explainOne(e.complete())
		},
	}
	out.addFlag(cmd)
	return cmd
}

// findExplanation takes a code whole, in any case, or without its beginning.
func findExplanation(s string) (explanation, bool) {
	s = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), "-", "_"))
	for _, e := range explanations {
		if string(e.code) == s || strings.TrimPrefix(string(e.code), "idempotency_") == s {
			return e, true
		}
	}
	return explanation{}, false
}

func (a *app) explainAll(out output) error {
	if out.json {
		all := make([]explained, len(explanations))
		for i, e := range explanations {
			all[i] = e.complete()
		}
		return a.printJSON(struct {
			Codes []explained `json:"codes"`
		}{all})
	}
	lines := []string{"CODE\tHTTP\tEXIT\tRETRY\tMEANING"}
	for _, e := range explanations {
		x := e.complete()
		first, _, _ := strings.Cut(x.Meaning, ". ")
		lines = append(lines, fmt.Sprintf("%s\t%d\t%d\t%s\t%s", x.Code, x.Status, x.ExitCode, yesNo(x.Retryable), strings.TrimSuffix(first, ".")))
	}
	table(a.stdout, lines...)
	_, err := fmt.Fprintln(a.stdout, "\nwhat to do about one: onced explain CODE")
	return err
}

func (a *app) explainOne(e explained) error {
	safe := "no: look first what this one did"
	if e.SafeNewKey {
		safe = "yes: this one started nothing and cannot"
	}
	retry := "no"
	if e.Retryable {
		retry = "yes: the same call, with the same attemptId or token"
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n\n%s\n\n%s\n\n", e.Code, wrap(e.Meaning), wrap(e.Next))
	table(a.stdout,
		"HTTP status\t"+fmt.Sprint(e.Status),
		"exit code\t"+fmt.Sprint(e.ExitCode),
		"waiting helps\t"+retry,
		"safe to take a new key\t"+safe)
	return err
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// wrap breaks a text into lines of at most 80 columns.
func wrap(s string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		switch {
		case column == 0:
		case column+1+len(word) > 80:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
