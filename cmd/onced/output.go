package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// output is the -o flag: text for people, or the HTTP API's JSON for programs.
type output struct{ json bool }

func (o *output) addFlag(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "text for people, json for programs")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// String, Set and Type make output a flag value.
func (o *output) String() string {
	if o.json {
		return "json"
	}
	return "text"
}

// Set takes the flag's argument.
func (o *output) Set(s string) error {
	switch s {
	case "json":
		o.json = true
	case "text":
		o.json = false
	default:
		return fmt.Errorf("use text or json")
	}
	return nil
}

// Type names the argument in help texts.
func (o *output) Type() string { return "text|json" }

// printJSON writes v as one line.
func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return &exitError{exitInternal, err.Error(), ""}
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}

// printReply writes a node's answer as it came.
func (a *app) printReply(r *reply) error {
	_, err := fmt.Fprintf(a.stdout, "%s\n", trimNewline(r.body))
	return err
}

// table writes lines of tab-separated cells in columns.
func table(w io.Writer, lines ...string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(tw, line)
	}
	tw.Flush()
}
