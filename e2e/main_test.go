// Package e2e proves the product from outside: real processes of the real
// binary, asked over real HTTP and now and then over bare sockets. Figures are
// printed, never asserted; what is asserted is what semantics.md and api.md
// promise.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// builtBinary builds onced once for all tests of the package.
var builtBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "onced-e2e-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "onced")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/onced").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := builtBinary(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}
