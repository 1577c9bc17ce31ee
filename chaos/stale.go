package chaos

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// pidFile says in a run's directory whose it is.
const pidFile = "runner.pid"

func writePID(dir string) error {
	return os.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// isDead tells whether the process of a pid is surely gone.
func isDead(text string) bool {
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// removeStaleDisks takes down the disks of runs that were killed before they
// could. A disk of ours is a file n1.img and so on, beside the pid of its run.
func removeStaleDisks() {
	out, err := exec.Command("losetup", "-l", "-n", "-O", "NAME,BACK-FILE").Output()
	if err != nil {
		return
	}
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasSuffix(f[1], ".img") {
			continue
		}
		pid, err := os.ReadFile(filepath.Join(filepath.Dir(f[1]), pidFile))
		if err != nil || !isDead(string(pid)) {
			continue
		}
		d := disk{image: f[1], mount: strings.TrimSuffix(f[1], ".img"), loop: f[0]}
		_ = d.remove()
	}
}
