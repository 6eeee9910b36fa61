package plugin

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inOwnGroup puts the process into a group of its own, so that a Ctrl-C reaches the host alone and a kill reaches
// its children. The parent-death signal is a second belt beside the lifeline.
func inOwnGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}

// awaitExit returns when the process has ended and before it is reaped: until then its pid and its group's id are nobody
// else's. False means that this cannot be waited for.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// killGroup kills the group that the process leads. Call it only before the process is reaped.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// runOpen makes cmd run the file that is open rather than the one that has its name by then. The child finds it at
// descriptor 3, where nothing that exec does can displace it.
func runOpen(cmd *exec.Cmd, program *os.File) {
	cmd.ExtraFiles = []*os.File{program}
	cmd.Path = "/proc/self/fd/3"
}
