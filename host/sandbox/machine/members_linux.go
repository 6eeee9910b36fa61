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

// members finds the live processes of the command: its session's, and those that carry its marker. The
// walk is limited to processes of our own user; others are out of reach and not ours.
func (r *running) members() []member {
	// A process that forks and exits over and over can slip by a walk. If no pid was given out meanwhile
	// none did; on a busy computer a few walks have to do.
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

// Bounds within which candidates can tell a command's processes from older ones by their pids.
const (
	shortLived = 250 * time.Millisecond
	fewPids    = 256
)

// candidates returns the pids to look at. The kernel gives pids out in rising order and starts over at the
// end, so what a command started lies between its leader's pid and the latest one, unless the count has gone
// around. Within a quarter of a second it cannot go around to beyond the leader again; later, or when
// the gap is wide, every process is looked at. For most commands this saves a walk of milliseconds.
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

// lastPid is the pid that was given out last in our namespace; see proc_loadavg(5).
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
	names, _ := proc.Readdirnames(-1) // what could be read is looked at
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inspect reports whether a process is alive and belongs to the command.
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

// sweep kills members that are not in the command's own group, which had its signal already, and reports whether there were any.
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

// killOne kills a process that is surely the command's. The pidfd is opened first and the process looked at after,
// so the one that is looked at is the one that the pidfd holds, and a pid used again by somebody else is never hit.
func (r *running) killOne(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone, or ENOSYS before Linux 5.3: better a survivor reported than a stranger killed
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

// stat is what /proc/PID/stat says, as far as it matters here; see proc_pid_stat(5).
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

// parseStat reads the line of /proc/PID/stat. The name in parentheses may itself hold parentheses and spaces, so the
// fields that count start after the last one.
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
