package plugin

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inOwnGroup puts the process into its own process group, so that a Ctrl-C reaches only the host and a kill reaches its children. The
// parent-death signal is used in addition to the lifeline.
func inOwnGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}

// killGroup kills the group that the process leads. Call it only before the process is reaped.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// runOpen makes cmd execute the open file rather than the file that has its name by then. The child has it at descriptor 3.
func runOpen(cmd *exec.Cmd, program *os.File) {
	cmd.ExtraFiles = []*os.File{program}
	cmd.Path = "/proc/self/fd/3"
}
