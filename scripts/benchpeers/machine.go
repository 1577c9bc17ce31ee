package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine is where a run took place.
type machine struct {
	CPU, Kernel, FileSystem, Device, Go, Load string
	Cores                                     int
	MemoryGiB                                 float64
}

func thisMachine(fileSystem, device string) machine {
	return machine{
		CPU: procLine("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		MemoryGiB: memoryGiB(procLine("/proc/meminfo", "MemTotal")),
		Kernel:    firstLine("/proc/sys/kernel/osrelease"), FileSystem: fileSystem, Device: device,
		Go: runtime.Version(), Load: loadAverage(firstLine("/proc/loadavg")),
	}
}

// procLine gives the value of the first line "NAME : VALUE" of a file.
func procLine(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// loadAverage gives the three averages of /proc/loadavg.
func loadAverage(line string) string {
	f := strings.Fields(line)
	return strings.Join(f[:min(3, len(f))], " ")
}

// memoryGiB reads "12345 kB".
func memoryGiB(s string) float64 {
	number, _, _ := strings.Cut(s, " ")
	kib, _ := strconv.ParseFloat(number, 64)
	return kib / (1 << 20)
}

// busy is the processor time that the whole machine has spent, waiting for
// disks not counted.
func busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return busyIn(string(b))
}

func busyIn(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	ticks := 0
	for i, field := range f[1:8] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		if i != 3 && i != 4 { // idle, iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / userHZ, nil
}

// output gives what a command prints, without the last line's end.
func output(name string, args ...string) (string, error) {
	b, err := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(b)), err
}
