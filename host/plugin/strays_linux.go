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

// Strays are processes that a killed host's plugins have started and that outlived them: they have no lifeline, and their parent-death
// signal is not set. The next host finds them in their control group, if there are control groups, and otherwise by the environment of each
// plugin: it has paths in the run folder, which belongs to one host only, by its lock. A process that has both emptied its environment and left
// its group is not found.

// Bounds on the search.
const (
	strayRounds = 20 // strays may start others during the search
	strayPause  = 10 * time.Millisecond
	maxEnviron  = 256 << 10 // bytes that are read of an environment; the host's variables come first
)

// endStrays kills the processes that the plugins of an earlier host with this run folder have left, and returns their number.
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
		time.Sleep(strayPause) // there is no event for their end
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

// isStray reports whether the environment of a process is that of a plugin with this run folder. A process that has ended has none.
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

// endStray kills a process, unless its pid was reused since it was found, and reports whether it did.
func endStray(pid int, runDir string) bool {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(p)
	return isStray(pid, runDir) && unix.PidfdSendSignal(p, unix.SIGKILL, nil, 0) == nil
}
