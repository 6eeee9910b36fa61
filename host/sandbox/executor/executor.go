// Package executor runs processes in one container, over the link to its supervisor: commands that are waited for, background commands,
// interactive processes, and the packing and unpacking of folders.
//
// Start with Executor: Exec (exec.go), Start and the methods for background processes (process.go), Spawn (live.go), Pack and Unpack
// (pack.go). If a process cannot be ended from inside, the container is removed, which only its owner can do.
//
// The package creates no containers, knows no sessions, and does not decide whether a command may run.
package executor

import (
	"sync"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/sandbox/link"
)

// Container is the container that an Executor runs processes in.
type Container interface {
	// Remove removes the container and returns once it is gone.
	Remove(reason error) error
	// WhyHung returns why the container does not answer, or nil if the engine knows no reason.
	WhyHung() error
}

// Executor runs processes in a container. Its methods are safe for concurrent use.
type Executor struct {
	link      *link.Link
	container Container
	dir       string // the workspace's absolute path inside
	shell     string // runs scripts; "" for a container that was adopted

	introduced atomic.Bool // callers have been told the shell

	mu        sync.Mutex
	processes map[string]*process
	started   int // number of background processes started so far
}

// New returns an Executor over a link. dir is the workspace's absolute path inside, and shell the program that runs scripts, "" if it is
// not known.
func New(l *link.Link, c Container, dir, shell string) *Executor {
	return &Executor{link: l, container: c, dir: dir, shell: shell, processes: make(map[string]*process)}
}

// plainShell runs scripts if the image has no bash; see package supervise.
const plainShell = "/bin/sh"

// Introduce returns a line about the shell the first time, and "" afterwards.
func (x *Executor) Introduce() string {
	switch {
	case x.shell == "" || x.introduced.Swap(true):
		return ""
	case x.shell == plainShell:
		return "commands are run by " + x.shell + ", as the image has no bash"
	}
	return "commands are run by " + x.shell
}
