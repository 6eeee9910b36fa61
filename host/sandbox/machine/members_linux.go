//go:build !portable

package machine

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/internal/ps"
)

// Weak returns what Host does not guarantee on this system.
func Weak() []string {
	return []string{"a process that leaves the session of its command and clears its environment outlives it"}
}

// watch waits for the leader's exit without reaping it.
func (r *running) watch() {
	defer close(r.exited)
	_ = ps.AwaitExit(r.cmd.Process.Pid) // fails only if there is no such child
}

// found keeps nothing: the environment of a process shows where it comes from until it ends.
type found struct{}

// members finds the live processes of the command: those of its session, and those that carry its marker. It only looks at processes that
// we may kill.
func (found) members(r *running) []member {
	// A process that forks and exits repeatedly can escape one walk. If no pid was assigned during the walk, none has escaped; on a busy
	// computer a few walks have to suffice.
	for range maxWalks {
		before, _ := lastPid()
		if found := r.walk(); len(found) > 0 {
			return found
		}
		if after, ok := lastPid(); ok && after == before {
			break
		}
	}
	return nil
}

const maxWalks = 3

func (r *running) walk() []member {
	var found []member
	for _, pid := range r.candidates() {
		if m, ok := r.inspect(pid); ok {
			found = append(found, m)
		}
	}
	return found
}

// Limits within which the pids distinguish a command's processes from older ones.
const (
	shortLived = 250 * time.Millisecond
	fewPids    = 256
)

// candidates returns the pids to check. The kernel assigns pids in rising order and wraps around, so the processes of a command lie between
// its leader's pid and the last one, unless the counter has passed the leader's pid again. It cannot do that within a quarter of a second;
// later, or if the range is large, every process is checked. For most commands this saves a walk that takes milliseconds.
func (r *running) candidates() []int {
	leader := r.cmd.Process.Pid
	if time.Since(r.started) < shortLived {
		if last, ok := lastPid(); ok && last >= leader && last-leader < fewPids {
			var pids []int
			for pid := leader; pid <= last; pid++ {
				pids = append(pids, pid)
			}
			return pids
		}
	}
	return allPids()
}

// lastPid returns the pid that was assigned last in our namespace; see proc_loadavg(5).
func lastPid() (int, bool) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(raw)
	if len(fields) != 5 {
		return 0, false
	}
	pid, err := strconv.Atoi(string(fields[4]))
	return pid, err == nil
}

func allPids() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // an incomplete list is used too
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inspect checks whether a process is alive and belongs to the command.
func (r *running) inspect(pid int) (member, bool) {
	p, ok := ps.Look(pid)
	if !ok {
		return member{}, false
	}
	return member{pid: pid, group: p.Group}, p.Session == r.cmd.Process.Pid || r.hasMarker(pid)
}
