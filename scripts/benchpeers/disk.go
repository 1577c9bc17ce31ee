package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// fileSystems names the ones whose number statfs gives.
var fileSystems = map[int64]string{
	0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x794c7630: "overlayfs", 0x2FC12FC1: "zfs",
}

// fileSystem names that of dir. One that lives in memory is refused: a sync
// costs nothing there, and nothing would be durable.
func fileSystem(dir string) (string, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "", err
	}
	return nameFileSystem(dir, int64(s.Type))
}

func nameFileSystem(dir string, magic int64) (string, error) {
	switch magic {
	case 0x01021994, 0x858458f6:
		return "", fmt.Errorf("%s is in memory (tmpfs), where a sync costs nothing: set TMPDIR to a directory on a disk", dir)
	}
	if name, ok := fileSystems[magic]; ok {
		return name, nil
	}
	return fmt.Sprintf("file system %#x", magic), nil
}

// device is the block device under a directory, as /proc/diskstats names it.
type device struct{ name string }

var errNoDevice = errors.New("the file system is on no block device of its own")

// deviceOf finds the device of dir; of a partition the whole disk, because
// flushes are counted there only.
func deviceOf(dir string) (device, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return device{}, err
	}
	dev := info.Sys().(*syscall.Stat_t).Dev
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	path, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor))
	if err != nil {
		return device{}, errNoDevice
	}
	if _, err := os.Stat(filepath.Join(path, "partition")); err == nil {
		path = filepath.Dir(path)
	}
	return device{filepath.Base(path)}, nil
}

// flushes is how many flush requests the device has completed.
func (d device) flushes() (uint64, error) {
	b, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0, err
	}
	return flushesIn(string(b), d.name)
}

// flushesIn reads field 19 (flush requests completed; Linux 5.5 and later) of a
// device's line.
func flushesIn(diskstats, name string) (uint64, error) {
	for line := range strings.Lines(diskstats) {
		f := strings.Fields(line)
		if len(f) < 3 || f[2] != name {
			continue
		}
		if len(f) < 20 {
			return 0, fmt.Errorf("the kernel does not count flushes of %s", name)
		}
		return strconv.ParseUint(f[18], 10, 64)
	}
	return 0, fmt.Errorf("/proc/diskstats has no %s", name)
}

// countsFlushes writes and syncs a few times in dir and tells whether the
// device's count shows it: some have no volatile cache and are never flushed.
func (d device) countsFlushes(dir string) error {
	const syncs = 20
	before, err := d.flushes()
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "flushes"))
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	for range syncs {
		if _, err := file.Write(make([]byte, 512)); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
	}
	after, err := d.flushes()
	if err != nil {
		return err
	}
	if after-before < syncs {
		return fmt.Errorf("%d syncs were %d flushes of %s: the device does not count them", syncs, after-before, d.name)
	}
	return nil
}
