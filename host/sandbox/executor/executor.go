// Package executor runs things in one container, over the link to its supervisor: commands to their end, commands in the background,
// processes that somebody talks to, and folders that are packed and unpacked as a whole.
//
// Start with Executor: Exec (exec.go), Start and what is asked about background processes (process.go), Spawn (live.go), Pack and Unpack
// (pack.go). What cannot be ended inside ends with its container, which only the owner of the container can remove.
//
// The package makes no containers, knows no sessions, and does not decide whether a command may run.
package executor

import (
	"sync"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/sandbox/link"
)

// Container is what an Executor needs of the container that it runs things in.
type Container interface {
	// Remove ends everything in the container and returns once it is gone.
	Remove(reason error) error
	// WhyHung is why it answers nothing, or nil where the engine knows of no reason.
	WhyHung() error
}

// Executor runs things in a container. Its methods are safe for concurrent use.
type Executor struct {
	link      *link.Link
	container Container
	dir       string // the workspace's absolute path inside
	shell     string // that runs scripts; "" of a container that was taken over

	introduced atomic.Bool // callers know the shell

	mu        sync.Mutex
	processes map[string]*process
	started   int // background processes ever
}

// New returns what runs things over a link. dir is the absolute path of the workspace inside, and shell what runs scripts, "" where that
// is not known.
func New(l *link.Link, c Container, dir, shell string) *Executor {
	return &Executor{link: l, container: c, dir: dir, shell: shell, processes: make(map[string]*process)}
}

// plainShell runs scripts where the image has no bash; see package supervise.
const plainShell = "/bin/sh"

// Introduce returns a line about the shell once, and afterwards "".
func (x *Executor) Introduce() string {
	switch {
	case x.shell == "" || x.introduced.Swap(true):
		return ""
	case x.shell == plainShell:
		return "commands are run by " + x.shell + ", as the image has no bash"
	}
	return "commands are run by " + x.shell
}
