package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"onced": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

// syncBuffer is an output that a test may read while the command still writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// ran is one command line and what it did.
type ran struct {
	code           int
	stdout, stderr string
}

// runCommand runs one command line in this process.
func runCommand(t *testing.T, environ []string, stdin string, args ...string) ran {
	t.Helper()
	var stdout, stderr syncBuffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, environ: environ}
	code := a.run(context.WithoutCancel(t.Context()), args...)
	return ran{code, stdout.String(), stderr.String()}
}
