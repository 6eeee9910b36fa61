//go:build unix && !linux

package plugin

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inOwnGroup puts the process into a group of its own, so that a Ctrl-C reaches the host alone and a kill reaches
// its children.
func inOwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit cannot wait: there is no portable way to do so without reaping. What is left of the group after the process
// ended by itself is not killed.
func awaitExit(int) bool { return false }

// killGroup kills the group that the process leads.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// runOpen does nothing: the file is run by its name, and its folder cannot be written by others.
func runOpen(*exec.Cmd, *os.File) {}
