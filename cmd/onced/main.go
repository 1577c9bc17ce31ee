// Command onced is the one binary of the project: a node (server), a whole
// cluster for trying things out (dev), and the client commands, which speak
// the HTTP API to any node.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// app is the process's contact with the world, so that tests can be one.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string // KEY=VALUE, as os.Environ gives it
}

func main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(a.run(untilSignal(), os.Args[1:]...))
}

// untilSignal gives a context that ends with the first SIGINT or SIGTERM. The
// second one ends the process at once: who asks twice does not want to wait
// for a drain.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// run carries out one command line and gives the exit code of the process.
func (a *app) run(ctx context.Context, args ...string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return a.report(cmd, err)
}
