//go:build linux

package supervise

import (
	"bytes"
	"os"
	"strconv"
)

// meters reads the container's own counters of refused memory and refused processes. The
// files stay open, because opening one for each command would cost more than reading it.
type meters struct {
	memory, pids *os.File
}

// reading is one look at the counters.
type reading struct{ oomKills, refusedForks uint64 }

// openMeters finds the counters of cgroup version 2 or 1; a missing one always reads 0.
func openMeters() *meters {
	return &meters{
		memory: openFirst("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"),
		pids:   openFirst("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"),
	}
}

func openFirst(paths ...string) *os.File {
	for _, p := range paths {
		if f, err := os.Open(p); err == nil {
			return f
		}
	}
	return nil
}

func (m *meters) read() reading {
	return reading{
		oomKills:     counter(m.memory, "oom_kill "),
		refusedForks: counter(m.pids, "max "),
	}
}

func counter(f *os.File, name string) uint64 {
	if f == nil {
		return 0
	}
	var buf [512]byte
	n, _ := f.ReadAt(buf[:], 0)
	for line := range bytes.Lines(buf[:n]) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			v, _ := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return v
		}
	}
	return 0
}
