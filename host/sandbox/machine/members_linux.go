package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// watch waits for the leader's exit without reaping it.
func (r *running) watch() {
	defer close(r.exited)
	for {
		err := unix.Waitid(unix.P_PID, r.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// member is a live process of a command.
type member struct {
	pid   int
	group int
}

// members finds the live processes of the command: those of its session, and those that carry its marker. It only looks at processes of our
// own user, because others are neither ours nor killable.
func (r *running) members() []member {
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
	if !ownProcess(pid) {
		return member{}, false
	}
	status, ok := readStat(pid)
	if !ok || status.dead() {
		return member{}, false
	}
	m := member{pid: pid, group: status.group}
	if status.session == r.cmd.Process.Pid {
		return m, true
	}
	return m, hasMarker(pid, r.marker)
}

// sweep kills the members outside of the command's group, which was signalled already, and reports whether there were any.
func (r *running) sweep(members []member) bool {
	any := false
	for _, m := range members {
		if m.group != r.cmd.Process.Pid {
			any = true
			r.killOne(m.pid)
		}
	}
	return any
}

// killOne kills a process only if it certainly belongs to the command. It opens the pidfd first and then inspects the process, so a pid
// that was reused by another process is never killed.
func (r *running) killOne(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone, or ENOSYS before Linux 5.3: better report a survivor than kill a stranger
	}
	defer unix.Close(fd)
	if _, ours := r.inspect(pid); ours {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

func ownProcess(pid int) bool {
	var st unix.Stat_t
	err := unix.Stat(filepath.Join("/proc", strconv.Itoa(pid)), &st)
	return err == nil && int(st.Uid) == os.Getuid()
}

// stat is the used part of /proc/PID/stat; see proc_pid_stat(5).
type stat struct {
	state   byte
	group   int
	session int
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	return parseStat(raw)
}

// parseStat parses the line of /proc/PID/stat. The name in parentheses may itself contain parentheses and spaces, so the fields are read
// after the last parenthesis.
func parseStat(raw []byte) (stat, bool) {
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 4 {
		return stat{}, false
	}
	group, err1 := strconv.Atoi(string(fields[2]))
	session, err2 := strconv.Atoi(string(fields[3]))
	return stat{state: fields[0][0], group: group, session: session}, err1 == nil && err2 == nil
}

func hasMarker(pid int, marker string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	want := []byte(markerName + "=" + marker)
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(variable, want) {
			return true
		}
	}
	return false
}
