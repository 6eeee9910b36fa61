//go:build linux

package supervise

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// startWatch reports whether processes were started: the last field of /proc/loadavg is the process id that was assigned last in this PID
// namespace (proc_loadavg(5)). A process that ended during a scan may have left a child, but not without a change of that number.
type startWatch struct{ fd int } // without it no count is certain, and each takes more scans

func openStartWatch() startWatch { return startWatch{openFirst("/proc/loadavg")} }

// last returns the id that was assigned last; ok is false if the kernel does not report it, as gVisor's does not.
func (w startWatch) last() (pid int, ok bool) {
	if w.fd <= 0 {
		return 0, false
	}
	var buf [128]byte
	n, _ := unix.Pread(w.fd, buf[:], 0)
	line := bytes.TrimSpace(buf[:max(n, 0)])
	pid, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	return pid, err == nil && pid > 0
}

// none reports whether no process was started since last returned before.
func (w startWatch) none(before int) bool {
	now, ok := w.last()
	return ok && now == before
}
