//go:build linux

package supervise

import (
	"bytes"
	"os"
	"strconv"
)

// births tells whether processes are made: the last field of /proc/loadavg is the process id that was given out last in
// this PID namespace (proc_loadavg(5)). A process that the kernel has just buried behind a scan's back may have left a
// child there, but not without that number changing.
type births struct{ file *os.File } // or nil

func openBirths() births {
	file, _ := os.Open("/proc/loadavg") // without it nothing is ever certain, and costs more looks
	return births{file}
}

// last is the id given out last; ok is false where the kernel does not tell, as gVisor's does not.
func (b births) last() (pid int, ok bool) {
	if b.file == nil {
		return 0, false
	}
	var buf [128]byte
	n, _ := b.file.ReadAt(buf[:], 0)
	fields := bytes.Fields(buf[:n])
	if len(fields) == 0 {
		return 0, false
	}
	pid, err := strconv.Atoi(string(fields[len(fields)-1]))
	return pid, err == nil && pid > 0
}

// none says whether nothing was born since the id given out last was before.
func (b births) none(before int) bool {
	now, ok := b.last()
	return ok && now == before
}
