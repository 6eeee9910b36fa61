//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// hideInput keeps a terminal from showing what is typed; lines and Ctrl-C work as before.
func hideInput(f *os.File) error {
	state, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		return err
	}
	state.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(int(f.Fd()), setTermios, state)
}
