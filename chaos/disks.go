package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// disk is a node's own file system: ext4 in a file, on a loop device, mounted
// where the node keeps its data.
type disk struct {
	image string
	mount string
	loop  string // /dev/loopN, while mounted
}

// diskSize is enough for the longest runs; the file is sparse.
const diskSize = 512 << 20

// newDisk makes and mounts a file system at mount, with further options of
// mkfs.ext4. Needs root.
func newDisk(image, mount string, options ...string) (*disk, error) {
	removeStaleDisks()
	d := &disk{image: image, mount: mount}
	f, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	err = errors.Join(f.Truncate(diskSize), f.Close())
	if err == nil {
		err = os.MkdirAll(mount, 0o700)
	}
	if err == nil {
		err = command("mkfs.ext4", append(append([]string{"-q", "-F", "-E", "lazy_itable_init=0"}, options...), image)...)
	}
	if err == nil {
		err = d.attach()
	}
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

// attach mounts d. An error in the file system turns it read-only.
func (d *disk) attach() error {
	out, err := exec.Command("losetup", "--find", "--show", d.image).Output()
	if err != nil {
		return fmt.Errorf("losetup %s: %w", d.image, err)
	}
	d.loop = strings.TrimSpace(string(out))
	if err := command("mount", "-o", "errors=remount-ro", d.loop, d.mount); err != nil {
		return errors.Join(err, d.detach())
	}
	return nil
}

// detach unmounts d; nothing may use it any more.
func (d *disk) detach() error {
	if d.loop == "" {
		return nil
	}
	var err error
	for range 50 {
		if !isMounted(d.mount) {
			err = nil
			break
		}
		if err = command("umount", d.mount); err == nil {
			break
		}
		t := time.NewTimer(100 * time.Millisecond) // a process that was killed lets go of its files
		<-t.C
	}
	if err != nil {
		return err
	}
	if err := command("losetup", "-d", d.loop); err != nil {
		return err
	}
	d.loop = ""
	return nil
}

// remove takes d down for good.
func (d *disk) remove() error {
	if d.loop != "" {
		// Frozen or cut, it must not stay.
		_ = exec.Command("fsfreeze", "-u", d.mount).Run()
	}
	err := d.detach()
	if err != nil {
		err = errors.Join(err, command("umount", "-l", d.mount), command("losetup", "-d", d.loop))
	}
	return errors.Join(err, os.Remove(d.image))
}

func isMounted(path string) bool {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Contains(string(b), " "+path+" ")
}

// powerCut is the loss of power under d: from now on nothing that was not
// forced to the disk can reach it.
func (d *disk) powerCut() error { return command("xfs_io", "-x", "-c", "shutdown", d.mount) }

// powerOn brings d back as the disk holds it.
func (d *disk) powerOn() error {
	if err := d.detach(); err != nil {
		return err
	}
	return d.attach()
}

// canary writes two files, and forces only the first one to the disk.
func (d *disk) canary(name string) error {
	for _, sync := range []bool{true, false} {
		f, err := os.Create(d.canaryPath(name, sync))
		if err != nil {
			return err
		}
		_, err = f.WriteString(strings.Repeat(name, 100))
		if err == nil && sync {
			if err = f.Sync(); err == nil {
				err = syncDirectory(d.mount)
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) canaryPath(name string, sync bool) string {
	if sync {
		return filepath.Join(d.mount, name+"-synced")
	}
	return filepath.Join(d.mount, name+"-unsynced")
}

// lost gives how many bytes of the canary a power cut took. The error is a
// disk that lost what was forced to it.
func (d *disk) lost(name string) (int, error) {
	want := strings.Repeat(name, 100)
	if b, err := os.ReadFile(d.canaryPath(name, true)); string(b) != want {
		return 0, fmt.Errorf("what was synced is gone: %d bytes, %w", len(b), err)
	}
	b, _ := os.ReadFile(d.canaryPath(name, false))
	_ = os.Remove(d.canaryPath(name, true))
	_ = os.Remove(d.canaryPath(name, false))
	if string(b) == want {
		return 0, nil
	}
	return len(want) - len(b), nil
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// freeze makes every write to d wait; thaw lets it go.
func (d *disk) freeze() error { return command("fsfreeze", "-f", d.mount) }
func (d *disk) thaw() error   { return command("fsfreeze", "-u", d.mount) }

// fill takes all space that is left, and gives how much that was.
func (d *disk) fill() (int64, error) {
	f, err := os.Create(filepath.Join(d.mount, "filler"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	total := int64(0)
	// Space that was set aside for writes under way comes back when they are
	// done: ask again until there is none.
	for _, size := range []int{1 << 20, 4096, 4096} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			var n int
			n, err = f.Write(block)
			total += int64(n)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return total, err
		}
		if err := f.Sync(); err != nil {
			return total, err
		}
	}
	return total, nil
}

// empty gives back what fill took.
func (d *disk) empty() error { return os.Remove(filepath.Join(d.mount, "filler")) }

// readOnly makes the kernel find an error in d, and so turn it read-only.
func (d *disk) readOnly() error {
	return os.WriteFile("/sys/fs/ext4/"+filepath.Base(d.loop)+"/trigger_fs_error", []byte("chaos"), 0o200)
}

// repair checks and mends d after an error, and mounts it again.
func (d *disk) repair() error {
	if err := d.detach(); err != nil {
		return err
	}
	out, err := exec.Command("e2fsck", "-fy", d.image).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() <= 2 {
		err = nil // errors were found, and mended
	}
	if err != nil {
		return fmt.Errorf("e2fsck %s: %w: %s", d.image, err, out)
	}
	return d.attach()
}

// writable tells whether a file can be made on d and forced to it.
func (d *disk) writable() bool {
	path := filepath.Join(d.mount, "probe")
	f, err := os.Create(path)
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, 8192))
	err = errors.Join(err, f.Sync(), f.Close(), os.Remove(path))
	return err == nil
}

// command runs a program of the system and gives what it said when it failed.
func command(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
