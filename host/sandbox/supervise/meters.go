//go:build linux

package supervise

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// meters reads the container's counters of processes killed for memory and of refused forks. The files stay open, because opening one for
// each command would cost more than reading it.
type meters struct {
	memory, pids int // descriptors, or -1
}

// reading is the value of the counters at one time.
type reading struct{ oomKills, refusedForks uint64 }

// openMeters opens the counters of cgroup version 2 or 1; a missing one always reads 0.
func openMeters() *meters {
	return &meters{
		memory: openFirst("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"),
		pids:   openFirst("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"),
	}
}

func openFirst(paths ...string) int {
	for _, p := range paths {
		if fd, err := unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			return fd
		}
	}
	return -1
}

func (m *meters) read() reading {
	return reading{
		oomKills:     counter(m.memory, "oom_kill "),
		refusedForks: counter(m.pids, "max "),
	}
}

// counter reads once: package os would read again to detect the end of the file.
func counter(fd int, name string) uint64 {
	if fd < 0 {
		return 0
	}
	var buf [512]byte
	n, _ := unix.Pread(fd, buf[:], 0)
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			v, _ := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return v
		}
	}
	return 0
}
