package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func needRoot(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("needs " + p)
		}
	}
}

func testDisk(t *testing.T) *disk {
	t.Helper()
	needRoot(t, "mkfs.ext4", "losetup", "xfs_io", "fsfreeze")
	dir := t.TempDir()
	d, err := newDisk(filepath.Join(dir, "image"), filepath.Join(dir, "mount"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
		if isMounted(d.mount) {
			t.Error("the disk is still mounted")
		}
	})
	return d
}

func TestAPowerCutTakesWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	d := testDisk(t)
	if err := d.canary("bird"); err != nil {
		t.Fatal(err)
	}
	if err := d.powerCut(); err != nil {
		t.Fatal(err)
	}
	if d.writable() {
		t.Error("a disk without power takes writes")
	}
	if err := d.powerOn(); err != nil {
		t.Fatal(err)
	}
	if lost, err := d.lost("bird"); err != nil || lost != 400 {
		t.Errorf("%d bytes were lost, 400 were not synced: %v", lost, err)
	}
	if !d.writable() {
		t.Error("the disk takes nothing when the power is back")
	}
}

// TestALyingSyncLosesData: what a program was told to be on disk is gone with
// the power when fdatasync did nothing, and is there when it did not lie.
func TestALyingSyncLosesData(t *testing.T) {
	t.Parallel()
	d := testDisk(t)
	needRoot(t, "strace", "dd")
	for _, lies := range []bool{true, false} {
		path := filepath.Join(d.mount, "file-"+strconv.FormatBool(lies))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syncDirectory(d.mount); err != nil {
			t.Fatal(err)
		}
		args := []string{"dd", "if=/dev/zero", "of=" + path, "bs=4096", "count=1", "conv=fdatasync,notrunc"}
		if lies {
			args = append([]string{"strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:retval=0"}, args...)
		}
		if err := command(args[0], args[1:]...); err != nil {
			t.Fatal(err)
		}
		if err := d.powerCut(); err != nil {
			t.Fatal(err)
		}
		if err := d.powerOn(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || lies == (len(b) == 4096) {
			t.Errorf("sync lies %v: %d bytes are there after the power cut: %v", lies, len(b), err)
		}
	}
}

func TestTamperedSyncs(t *testing.T) {
	t.Parallel()
	d := testDisk(t)
	needRoot(t, "strace", "dd")
	sync := func(inject string) (time.Duration, error) {
		began := time.Now()
		err := command("strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:"+inject,
			"dd", "if=/dev/zero", "of="+filepath.Join(d.mount, "file"), "bs=4096", "count=1", "conv=fdatasync")
		return time.Since(began), err
	}
	if _, err := sync("error=EIO"); err == nil {
		t.Error("a failing sync was taken for a good one")
	}
	if took, err := sync("delay_enter=300000"); err != nil || took < 300*time.Millisecond {
		t.Errorf("a sync that is to take 300 ms more took %v: %v", took, err)
	}
}

func TestAFullDiskTakesNothing(t *testing.T) {
	t.Parallel()
	d := testDisk(t)
	if n, err := d.fill(); err != nil || n < diskSize/2 {
		t.Fatalf("%d bytes filled: %v", n, err)
	}
	if d.writable() {
		t.Error("a full disk takes writes")
	}
	if err := d.empty(); err != nil {
		t.Fatal(err)
	}
	// What was freed is there once the journal has it.
	for end := time.Now().Add(10 * time.Second); !d.writable(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the disk takes nothing with space on it")
		}
	}
}

func TestAFrozenDiskWaits(t *testing.T) {
	t.Parallel()
	d := testDisk(t)
	if err := d.freeze(); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan bool)
	go func() { wrote <- d.writable() }()
	select {
	case <-wrote:
		t.Error("a write went through a frozen disk")
	case <-time.After(short):
	}
	if err := d.thaw(); err != nil {
		t.Fatal(err)
	}
	if !<-wrote {
		t.Error("the write failed after the thaw")
	}
}

func TestAReadOnlyDiskTakesNothing(t *testing.T) {
	t.Parallel()
	d := testDisk(t)
	if err := d.readOnly(); err != nil {
		t.Fatal(err)
	}
	soon(t, "writes fail", func() bool { return !d.writable() })
	if err := d.repair(); err != nil {
		t.Fatal(err)
	}
	if !d.writable() {
		t.Error("the disk takes nothing after its repair")
	}
}

// TestNamespaces: what is cut, lost or down carries nothing between nodes, one
// way where it is one way, while clients reach what they should.
func TestNamespaces(t *testing.T) {
	needRoot(t, "ip", "nft", "nsenter")
	f, err := newNetns(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, name := range netnsNames() {
			if strings.HasPrefix(name, f.prefix) {
				t.Errorf("the namespace %s is still there", name)
			}
		}
	})
	var conns [2]net.PacketConn
	for i := range conns {
		inside := f.inside(i, func() { conns[i], err = net.ListenPacket("udp4", f.address(i)+":700") })
		if inside != nil || err != nil {
			t.Fatal(inside, err)
		}
		defer conns[i].Close()
	}
	// passes tells whether one of n datagrams gets from one node to the other.
	passes := func(from, to, n int) bool {
		word := fmt.Sprint(time.Now().UnixNano())
		for range n {
			_, _ = conns[from].WriteTo([]byte(word), conns[to].LocalAddr())
		}
		_ = conns[to].SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		b := make([]byte, 100)
		for {
			k, _, err := conns[to].ReadFrom(b)
			if err != nil {
				return false
			}
			if string(b[:k]) == word {
				return true
			}
		}
	}
	soon(t, "datagrams pass both ways", func() bool { return passes(0, 1, 3) && passes(1, 0, 3) })
	if err := f.Cut(0, 1); err != nil {
		t.Fatal(err)
	}
	if passes(0, 1, 3) {
		t.Error("a datagram got through the cut")
	}
	if !passes(1, 0, 3) {
		t.Error("the other way is cut, too")
	}
	if n, _, err := f.Stopped(); err != nil || n < 3 {
		t.Errorf("%d packets counted: %v", n, err)
	}
	if err := f.Heal(); err != nil {
		t.Fatal(err)
	}
	before, _, _ := f.Stopped()
	if err := f.Lose(50); err != nil {
		t.Fatal(err)
	}
	passes(0, 1, 200)
	if after, _, _ := f.Stopped(); after-before < 50 || after-before > 150 {
		t.Errorf("of 200 packets %d were lost at 50 %%", after-before)
	}
	_ = f.Heal()
	if err := f.Link(0, "down"); err != nil {
		t.Fatal(err)
	}
	if passes(0, 1, 3) || passes(1, 0, 3) {
		t.Error("a datagram got over a link that is down")
	}
	if err := f.Link(0, "up"); err != nil {
		t.Fatal(err)
	}
	soon(t, "datagrams pass again", func() bool { return passes(0, 1, 3) && passes(1, 0, 3) })
	// A client dials from inside.
	var l net.Listener
	inside := f.inside(0, func() { l, err = net.Listen("tcp4", f.address(0)+":4747") })
	if inside != nil || err != nil {
		t.Fatal(inside, err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := f.dial(ctx, "tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if from, _, _ := net.SplitHostPort(got.RemoteAddr().String()); from != f.address(2) {
		t.Errorf("the client came from %s, its namespace is %s", from, f.address(2))
	}
}

func TestNoDescriptorsLeft(t *testing.T) {
	t.Parallel()
	needRoot(t, "prlimit")
	// Only the redirection decides: a sleep that cannot be loaded for want of
	// descriptors is no end of the loop.
	p := start(t, "sh", "-c", "while true; do sleep 0.05; : <>/dev/null || exit 9; done")
	limit, err := softLimit(strconv.Itoa(p.pid()))
	if err != nil || limit == "3" {
		t.Fatal(limit, err)
	}
	if err := command("prlimit", "--pid", strconv.Itoa(p.pid()), "--nofile=3:"); err != nil {
		t.Fatal(err)
	}
	if code, ended := p.exit(20 * time.Second); !ended || code == 0 {
		t.Errorf("a process without descriptors went on: %d, %v", code, ended)
	}
}

// groupHere makes a group or skips where there are none of version 1.
func groupHere(t *testing.T, controller string, p *process, settings map[string]string) (*group, *Node) {
	t.Helper()
	needRoot(t)
	if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", controller, "cgroup.procs")); err != nil {
		t.Skip("needs control groups of version 1")
	}
	g, err := newGroup(controller, p.pid(), settings)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{proc: p}
	t.Cleanup(func() {
		p.kill()
		_ = g.leave(n)
		if _, err := os.Stat(g.dir); err == nil {
			t.Errorf("the group %s is still there", g.dir)
		}
	})
	return g, n
}

func TestLittleCPU(t *testing.T) {
	t.Parallel()
	p := start(t, "sh", "-c", "while :; do :; done")
	g, _ := groupHere(t, "cpu", p, map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "5000"})
	soon(t, "it is throttled", func() bool { return g.read("cpu.stat", "nr_throttled") > 2 })
}

func TestLittleMemory(t *testing.T) {
	t.Parallel()
	p := start(t, "sh", "-c", "read x <&0; sleep 0.2; x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 60")
	g, _ := groupHere(t, "memory", p, map[string]string{"memory.limit_in_bytes": "524288"})
	soon(t, "the limit is hit", func() bool { return g.read("memory.failcnt", "") > 0 })
}
