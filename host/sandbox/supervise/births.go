//go:build linux

package supervise

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// births reports whether processes are made: the last field of /proc/loadavg is the process id that was given out last in
// this PID namespace (proc_loadavg(5)). A process that the kernel has just buried behind a scan's back may have left a
// child there, but not without that number changing.
type births struct{ fd int } // without one nothing is ever certain, and costs more looks

func openBirths() births { return births{openFirst("/proc/loadavg")} }

// last is the id given out last; ok is false where the kernel does not tell, as gVisor's does not.
func (b births) last() (pid int, ok bool) {
	if b.fd <= 0 {
		return 0, false
	}
	var buf [128]byte
	n, _ := unix.Pread(b.fd, buf[:], 0)
	line := bytes.TrimSpace(buf[:max(n, 0)])
	pid, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	return pid, err == nil && pid > 0
}

// none reports whether nothing was born since the id given out last was before.
func (b births) none(before int) bool {
	now, ok := b.last()
	return ok && now == before
}
