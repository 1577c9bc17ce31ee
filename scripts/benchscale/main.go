// Command benchscale measures onced by size: by the records that it holds, by
// its nodes, and by what fails. It starts real processes with their data on a
// disk, and prints a table. Run it by scripts/bench.sh scale, on a machine that
// does nothing else. It asserts nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Processes are tied to the thread that starts them: see processAttributes.
func init() { runtime.LockOSThread() }

func main() {
	p := fullPlan
	records := flag.String("records", "1000000,5000000", "sizes, in records, smallest first; the largest up to 1000000 is also that of sweep and catch-up")
	nodes := flag.String("nodes", "1,3,5", "cluster sizes to compare")
	quick := flag.Bool("quick", false, "a try of under two minutes, with sizes of 10,000 and 100,000")
	onced := flag.String("onced", "", "the binary (default: built from this project)")
	out := flag.String("o", "", "write the table to this file, not to standard output")
	document := flag.String("document", "", "put the table of a whole run into this document, in the place of its block; not with -quick, -only or -o")
	only := flag.String("only", "", "only these parts, comma-separated: "+strings.Join(partNames(), ", "))
	flag.Parse()
	if *quick {
		p = quickPlan
		if !given("records") {
			*records = "10000,100000"
		}
	}
	if *quick || *only != "" || *out != "" {
		*document = ""
	}
	if err := p.set(*records, *nodes, *only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "benchscale:", err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, p, *onced, *out, *document)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "benchscale: interrupted; every server is ended, the data is removed")
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchscale:", err)
		os.Exit(1)
	}
}

func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// numbers reads a list of numbers from least to most, each higher than the last.
func numbers(list string, least, most int) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < least || n > most || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%q is not a rising list of numbers from %d to %d", list, least, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// run measures and writes the table. Whatever happens, nothing that it started
// runs on and none of the data is left.
func run(ctx context.Context, p plan, onced, out, document string) (err error) {
	dir, err := os.MkdirTemp("", "onced-scale-")
	if err != nil {
		return err
	}
	r := &runner{plan: p, dir: dir, began: time.Now(), onced: onced}
	defer func() {
		r.end()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if r.fileSystem, err = fileSystem(dir); err != nil {
		return err
	}
	if r.onced, err = binary(ctx, dir, onced); err != nil {
		return err
	}
	if err := r.all(ctx); err != nil {
		return err
	}
	table := r.table.markdown(r.setting())
	if out != "" {
		return os.WriteFile(out, []byte(block(blockName, table)+"\n"), 0o644)
	}
	fmt.Println(block(blockName, table))
	if document != "" {
		return writeDocument(document, table)
	}
	return nil
}

// binary gives the server to run, built when none was named.
func binary(ctx context.Context, dir, named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	path := filepath.Join(dir, "onced")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/onced/onced/cmd/onced").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}
