//go:build unix && !linux

package plugin

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inOwnGroup puts the process into its own process group, so that a Ctrl-C reaches only the host and a kill reaches its children.
func inOwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group that the process leads.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// runOpen does nothing: the file is executed by its name, and other users cannot write to its folder.
func runOpen(*exec.Cmd, *os.File) {}
