//go:build linux

package supervise

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process that carries a tag.
type process struct {
	pid, group int
	dead       bool // and not reaped yet
	stopped    bool
}

// scanner finds processes by tag. Only one scan runs at a time, so that many commands that end at once do not block more threads than there
// are.
type scanner struct {
	starts startWatch

	mu     sync.Mutex
	dir    [32 << 10]byte
	status [8 << 10]byte
}

// find returns the live processes that carry such a tag as a supplementary group. A process can change its name, parent, group and session,
// but without CAP_SETGID it keeps its supplementary groups, and so do its children. A process that starts during the scan may be missed;
// count is exact.
func (s *scanner) find(such func(tag int) bool) []process {
	return slices.DeleteFunc(s.scan(such), func(p process) bool { return p.dead })
}

// scan is find including zombies.
func (s *scanner) scan(such func(tag int) bool) []process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []process
	for _, pid := range s.pids() {
		if p, ok := s.look(pid, such); ok {
			found = append(found, p)
		}
	}
	return found
}

const (
	// countLooks is how many empty scans in a row count as proof if other processes are started all the time: a chain of processes would
	// have to escape each of them.
	countLooks = 8
	// reapGrace is how long to wait for zombies to be reaped. They are harmless, but people count them.
	reapGrace = 100 * time.Millisecond
)

// count returns how many processes carry such a tag. Zero is certain: the last scan found none, not even a zombie, and no process was
// started during it.
func (s *scanner) count(such func(tag int) bool) int {
	alive := 0
	patience := time.Now().Add(reapGrace)
	for empty := 0; empty < countLooks; {
		before, known := s.starts.last()
		found := s.scan(such)
		alive = len(slices.DeleteFunc(slices.Clone(found), func(p process) bool { return p.dead }))
		switch {
		case alive > 0:
			return alive
		case len(found) > 0 && time.Now().Before(patience):
			time.Sleep(100 * time.Microsecond) // the reaper is about to reap it
		case known && s.starts.none(before):
			return 0
		default:
			empty++
		}
	}
	return alive
}

// pids lists the numeric names in /proc. s.mu is held.
func (s *scanner) pids() []int {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var pids []int
	var names []string
	for {
		n, err := unix.ReadDirent(fd, s.dir[:])
		if n <= 0 || err != nil {
			return pids
		}
		_, _, names = unix.ParseDirent(s.dir[:n], -1, names[:0])
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
	}
}

// look reads one /proc/PID/status; see proc_pid_status(5).
func (s *scanner) look(pid int, such func(int) bool) (process, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	n, _ := unix.Read(fd, s.status[:])
	unix.Close(fd)
	p, carries := parseStatus(s.status[:max(n, 0)], pid, such)
	if single() {
		names := namesOf(pid)
		carries = names != 0 && names != ownNames() && such(names)
	}
	if carries && p.group == 0 { // gVisor's status does not contain it
		p.group, _ = unix.Getpgid(pid)
	}
	return p, carries
}

// parseStatus parses a process's status. A process whose first thread has ended is reported as a zombie although its other threads live.
func parseStatus(status []byte, pid int, such func(int) bool) (process, bool) {
	p := process{pid: pid}
	carries := false
	ended, threads := false, 0
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "State":
			state := bytes.TrimSpace(value)
			ended = len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
			p.stopped = len(state) > 0 && state[0] == 'T'
		case "Threads":
			threads, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		case "Groups":
			carries = hasNumber(value, such)
		case "NSpgid":
			if first, _, _ := bytes.Cut(bytes.TrimSpace(value), []byte("\t")); len(first) > 0 {
				p.group, _ = strconv.Atoi(string(first))
			}
		}
	}
	p.dead = ended && threads <= 1
	return p, carries
}

func hasNumber(list []byte, such func(int) bool) bool {
	for field := range bytes.FieldsSeq(list) {
		if n, err := strconv.Atoi(string(field)); err == nil && such(n) {
			return true
		}
	}
	return false
}
