package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// freeBlock finds a base port whose block of n nodes is free just now. It looks
// below the ports that systems give to outgoing connections, so that nothing
// takes one of them by chance before the test does.
func freeBlock(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		base := 10_000 + rand.IntN(20_000)
		if b, err := bindBlock(base, n); err == nil {
			b.close()
			return base
		}
	}
	t.Fatal("no free block of ports")
	return 0
}

func TestBindBlockNamesTheBusyPort(t *testing.T) {
	t.Parallel()
	base := freeBlock(t, 3)
	for _, taken := range []int{base, base + 1, base + 10, base + 21} {
		l, err := listenLoopback(taken)
		if err != nil {
			t.Skip("another process was faster:", err)
		}
		_, err = bindBlock(base, 3)
		l.Close()
		busy, ok := errors.AsType[*busyPortError](err)
		if !ok || busy.port != taken {
			t.Errorf("port %d taken: got %v", taken, err)
		}
		if !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("no cause in: %v", err)
		}
	}
	// Nothing is left bound by the tries.
	b, err := bindBlock(base, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	for i, want := range []int{base, base + 10, base + 20} {
		if got := b.http[i].Addr().(*net.TCPAddr).Port; got != want {
			t.Errorf("HTTP of node %d on %d, want %d", i+1, got, want)
		}
		if got := b.peers[i].Addr().(*net.TCPAddr).Port; got != want+1 {
			t.Errorf("peers of node %d on %d, want %d", i+1, got, want+1)
		}
	}
}

// Two clusters that want the default ports get different ones, and the second
// is told why.
func TestBindFreeBlockMovesOn(t *testing.T) {
	t.Parallel()
	first, _, err := bindFreeBlock(3)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	second, why, err := bindFreeBlock(3)
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if why == nil || second.base <= first.base {
		t.Errorf("first from %d, second from %d because of %v", first.base, second.base, why)
	}
}

func TestKeptPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if port, err := keptPort(dir, 3); port != 0 || err != nil {
		t.Fatal(port, err)
	}
	if err := keepPort(dir, 3, 5000); err != nil {
		t.Fatal(err)
	}
	if port, err := keptPort(dir, 3); port != 5000 || err != nil {
		t.Errorf("kept %d, %v", port, err)
	}
	if _, err := keptPort(dir, 5); err == nil || !strings.Contains(err.Error(), "--nodes 3") {
		t.Errorf("other number of nodes: %v", err)
	}
	o := devOptions{nodes: 3, port: 6000, dataDir: dir}
	if _, _, err := o.bind(); err == nil || !strings.Contains(err.Error(), "--port 5000") {
		t.Errorf("other port: %v", err)
	}
}
