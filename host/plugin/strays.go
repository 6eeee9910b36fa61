package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/ps"
)

// Strays are processes that a killed host's plugins have started and that outlived them: they have no lifeline, and their parent-death
// signal is not set. The next host finds them in their control group, if there are control groups, and otherwise by the environment of each
// plugin: it has paths in the run folder, which belongs to one host only, by its lock. A process that has both emptied its environment and left
// its group is not found.

// Bounds on the search.
const (
	strayRounds = 20 // strays may start others during the search
	strayPause  = 10 * time.Millisecond
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
			if ps.End(pid, func() bool { return isStray(pid, runDir) }) {
				ended[pid] = true
			}
		}
		time.Sleep(strayPause) // there is no event for their end
	}
	return len(ended)
}

// strays are the processes with an environment of this run folder.
func strays(runDir string) (pids []int) {
	all, _ := ps.Own() // nothing is found where the system does not list them
	for _, p := range all {
		if p.PID != os.Getpid() && isStray(p.PID, runDir) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// isStray reports whether the environment of a process is that of a plugin with this run folder. A process that has ended has none.
func isStray(pid int, runDir string) bool {
	folder := filepath.Join(runDir, socketDirs)
	return slices.ContainsFunc(ps.Environ(pid), func(variable []byte) bool {
		for _, name := range []string{"HOME=", "TMPDIR=", "PLUGIN_UNIX_SOCKET_DIR="} {
			if bytes.HasPrefix(variable, []byte(name+folder)) {
				return true
			}
		}
		return false
	})
}
