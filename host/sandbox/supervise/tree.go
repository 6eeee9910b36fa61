//go:build linux

package supervise

import (
	"bytes"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// process is one live process that carries a tag.
type process struct{ pid, group int }

// scanner finds processes by tag. Its scans take turns, so that many commands ending at once
// cannot block more threads than there are.
type scanner struct {
	mu     sync.Mutex
	dir    [32 << 10]byte
	status [8 << 10]byte
}

// find returns the live processes that carry such a tag as a supplementary group. Zombies are dead and
// not counted. A process can change its name, parent, group and session, but without
// CAP_SETGID it keeps its supplementary groups, and so do its children.
func (s *scanner) find(such func(tag int) bool) []process {
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

// pids lists the numeric names in /proc.
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
	return parseStatus(s.status[:max(n, 0)], pid, such)
}

func parseStatus(status []byte, pid int, such func(int) bool) (process, bool) {
	p := process{pid: pid}
	carries := false
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "State":
			if state := bytes.TrimSpace(value); len(state) > 0 && (state[0] == 'Z' || state[0] == 'X') {
				return p, false
			}
		case "Groups":
			carries = hasNumber(value, such)
		case "NSpgid":
			if first, _, _ := bytes.Cut(bytes.TrimSpace(value), []byte("\t")); len(first) > 0 {
				p.group, _ = strconv.Atoi(string(first))
			}
		}
	}
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
