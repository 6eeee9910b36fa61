// Package ps looks at the processes that this user may kill, and waits for their ends, on Linux and macOS.
//
// Start with Own, which lists them, Look, and Environ, by which a process is recognised as one's own. The package does not decide what may be
// killed: End kills one process if its caller still recognises it.
package ps

import (
	"errors"
	"slices"
)

// Process is a live process.
type Process struct {
	PID, Parent, Group, Session int
	// Started distinguishes the process from later ones with the same PID. Its unit depends on the system.
	Started int64
}

// ErrUnsupported means that this system does not tell.
var ErrUnsupported = errors.New("not supported on this system")

// maxEnviron bounds what is read of a process's environment, in bytes.
const maxEnviron = 256 << 10

// HasVariable reports whether the environment of a process has the variable NAME=value.
func HasVariable(pid int, variable string) bool {
	return slices.ContainsFunc(Environ(pid), func(v []byte) bool { return string(v) == variable })
}
