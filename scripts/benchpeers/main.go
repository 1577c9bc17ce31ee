// Command benchpeers measures onced beside etcd, Redis and PostgreSQL, on this
// machine, in one run and in turn, and holds the ratios against the project's
// targets. scripts/bench.sh peers and floor run it; docs/BENCHMARKS.md says what
// each system does, and why so. It needs Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The servers end with the thread that started them (see launch): main keeps
// its own.
func init() { runtime.LockOSThread() }

// options are what the command line says.
type options struct {
	onced     string // path of the binary
	oncedArgs string
	commit    string
	systems   []string
	rounds    int
	timing    timing
	floorFor  time.Duration
	document  string // "": print only
	json      string // "": a file in the temporary directory
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("use: peers, floor")
	}
	// The second signal ends the program at once, and the servers with it.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	context.AfterFunc(ctx, cancel)
	switch args[0] {
	case "peers":
		o, err := parse(args[1:])
		if err != nil {
			return err
		}
		return peers(ctx, o)
	case "floor":
		return floorAlone(ctx, args[1:])
	case "echo-server": // a child of floor
		return serveEcho()
	}
	return fmt.Errorf("what is %s? Use: peers, floor", args[0])
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("peers", flag.ExitOnError)
	f.StringVar(&o.onced, "onced", "bin/onced", "the binary")
	f.StringVar(&o.oncedArgs, "onced-args", "", "more arguments for each node of both log stores, as in \"--snapshot-threshold 8192\"")
	f.StringVar(&o.commit, "commit", "unknown", "the commit that is measured")
	systems := f.String("systems", strings.Join(systemNames, ","), "systems to measure")
	quick := f.Bool("quick", false, "a try of one minute: one round of one second each, and no document written")
	f.IntVar(&o.rounds, "rounds", 5, "rounds")
	f.DurationVar(&o.timing.measured, "for", 3*time.Second, "length of each measurement")
	f.DurationVar(&o.timing.warmup, "warmup", time.Second, "warm-up before each")
	f.StringVar(&o.document, "document", "", "write the tables into this document, if all systems are measured and not --quick")
	f.StringVar(&o.json, "o", "", "file for the raw figures, as JSON (default: a new one in the temporary directory)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.floorFor = 500 * time.Millisecond
	if *quick {
		o.floorFor = 200 * time.Millisecond
		given := map[string]bool{}
		f.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["rounds"] {
			o.rounds = 1
		}
		if !given["for"] {
			o.timing.measured = time.Second
		}
		if !given["warmup"] {
			o.timing.warmup = 300 * time.Millisecond
		}
	}
	o.systems = strings.Split(*systems, ",")
	for _, s := range o.systems {
		if !slices.Contains(systemNames, s) {
			return o, fmt.Errorf("--systems: %q is none of %s", s, strings.Join(systemNames, ", "))
		}
	}
	if *quick || len(o.systems) < len(systemNames) {
		o.document = "" // its tables are of all systems
	}
	if f.NArg() > 0 || o.rounds < 1 || o.timing.measured <= 0 || o.timing.warmup < 0 {
		return o, fmt.Errorf("--rounds of 1 or more, --for above zero, and no other arguments: %q", f.Args())
	}
	return o, nil
}

// floorAlone measures the machine's own limits and prints them.
func floorAlone(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("floor", flag.ExitOnError)
	rounds := f.Int("rounds", 3, "rounds")
	each := f.Duration("for", time.Second, "length of each measurement")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, fsName, err := workDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all [][]limit
	for r := range max(1, *rounds) {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", r+1, max(1, *rounds))
		l, err := floors(ctx, dir, *each)
		if err != nil {
			return err
		}
		all = append(all, l)
	}
	m := thisMachine(fsName, "")
	fmt.Printf("%s, %d cores, Linux %s, %s, %s\n\n%s", m.CPU, m.Cores, m.Kernel, fsName, m.Go, floorTable(all))
	return nil
}

// workDir makes the directory that holds all data of a run, on a disk.
func workDir() (dir, fileSystemName string, err error) {
	dir, err = os.MkdirTemp("", "onced-bench-")
	if err != nil {
		return "", "", err
	}
	fileSystemName, err = fileSystem(dir)
	if err == nil {
		err = os.Chmod(dir, 0o711) // PostgreSQL runs as somebody else
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", "", err
	}
	return dir, fileSystemName, nil
}
