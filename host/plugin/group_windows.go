package plugin

import (
	"os"
	"os/exec"
	"syscall"
)

// inOwnGroup keeps Ctrl-C from the process.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills the process. Its children end by their own lifeline, if they have one.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

// runOpen does nothing: a running file is locked.
func runOpen(*exec.Cmd, *os.File) {}
