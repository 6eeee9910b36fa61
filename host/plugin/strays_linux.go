package plugin

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Strays are processes that a killed host's plugins have started and that outlived them: they hold no lifeline, and the signal at the death of
// a parent is not handed on. Where there are control groups the next host finds them there, whatever they did to hide; elsewhere by what the
// host has put into the environment of each plugin: paths in its run folder, which nobody else has, and which is this host's alone
// by its lock. One that has emptied its environment and left its group as well is found by neither.

// Bounds on the search.
const (
	strayRounds = 20 // one that starts others while it is looked for is met again
	strayPause  = 10 * time.Millisecond
	maxEnviron  = 256 << 10 // bytes that are read of an environment; the host's own come first
)

// endStrays ends what the plugins of an earlier host with this run folder have left, and tells how many there were.
func endStrays(runDir string) int {
	ended := map[int]bool{}
	for range strayRounds {
		found := strays(runDir)
		if len(found) == 0 {
			break
		}
		for _, pid := range found {
			if endStray(pid, runDir) {
				ended[pid] = true
			}
		}
		time.Sleep(strayPause) // the kernel tells nobody when they are gone
	}
	return len(ended)
}

// strays are the processes with an environment of this run folder.
func strays(runDir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && isStray(pid, runDir) {
			out = append(out, pid)
		}
	}
	return out
}

// isStray reports whether the environment of a process is that of a plugin of this run folder. A process that has ended has none.
func isStray(pid int, runDir string) bool {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	folder := filepath.Join(runDir, socketDirs)
	return slices.ContainsFunc(bytes.Split(text, []byte{0}), func(variable []byte) bool {
		for _, name := range []string{"HOME=", "TMPDIR=", "PLUGIN_UNIX_SOCKET_DIR="} {
			if bytes.HasPrefix(variable, []byte(name+folder)) {
				return true
			}
		}
		return false
	})
}

// endStray ends one process, if it still is the one that was found, and reports whether it did.
func endStray(pid int, runDir string) bool {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(p)
	return isStray(pid, runDir) && unix.PidfdSendSignal(p, unix.SIGKILL, nil, 0) == nil
}
