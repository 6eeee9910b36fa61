package gateway

import (
	"context"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// Sandboxes shows the live sandboxes, their files and what their programs asked for. Their errors are store.ErrNotFound if there is no such
// live sandbox, or no more, and a BadRequest for a path that is none of its workspace.
type Sandboxes interface {
	// Sandboxes returns those with a live container, the oldest first.
	Sandboxes(ctx context.Context) ([]LiveSandbox, error)
	// Containers returns all containers of this host on the engine, those of the pool and paused ones among them.
	Containers(ctx context.Context) ([]Container, error)
	// SandboxRules returns the configured sandboxes, by name.
	SandboxRules(ctx context.Context) ([]SandboxRules, error)
	// SandboxFiles returns the entries of a folder of a workspace.
	SandboxFiles(ctx context.Context, id, path string) (SandboxFolder, error)
	// OpenSandboxFile opens a regular file of a workspace; links are followed within it, and never out of it.
	OpenSandboxFile(ctx context.Context, id, path string) (io.ReadCloser, SandboxFile, error)
	// Egress returns requests of programs to the network, latest first, and the cursor of what follows; "" is the end.
	Egress(ctx context.Context, f egress.RecordFilter) ([]egress.Record, string, error)
	// StartSelfTest starts a self-test of a configured sandbox: store.ErrConflict while one runs, or if there is no engine.
	StartSelfTest(ctx context.Context, name, by string) (selftest.State, error)
	// SelfTest returns the last one, or the one under way with its outcomes so far.
	SelfTest(ctx context.Context) (selftest.State, error)
	// OpenTerminal starts a shell on a new terminal in a live sandbox. It ends when ctx ends, when the kill switch is thrown, and when its
	// sandbox ends.
	OpenTerminal(ctx context.Context, id string, size TerminalSize, by string) (Terminal, error)
}

// LiveSandbox is a sandbox with a live container.
type LiveSandbox struct {
	ID        string               `json:"id"` // of the container
	Session   message.WorkspaceKey `json:"session" doc:"Whose it is"`
	Agent     string               `json:"agent,omitempty"`
	Name      string               `json:"name" doc:"The sandbox of the configuration; empty is [sandbox]"`
	Image     string               `json:"image"`
	Driver    string               `json:"driver" doc:"The address of the engine; empty is the usual one"`
	Runtime   string               `json:"runtime,omitempty"`
	Network   string               `json:"network"`
	Since     time.Time            `json:"since"`
	Idle      time.Time            `json:"idle,omitzero" doc:"Since when; missing while it is in use"`
	Processes []machine.Process    `json:"processes" doc:"Those in the background"`
	Snapshots int64                `json:"snapshots" doc:"Bytes of the session's files that undo can bring back"`
	// Tasks counts processes and threads, Memory is in bytes. Both are 0 where the engine does not tell.
	Tasks       int64 `json:"tasks"`
	TasksLimit  int64 `json:"tasks_limit"`
	Memory      int64 `json:"memory"`
	MemoryLimit int64 `json:"memory_limit"`
}

// Container is one of the host's containers on the engine.
type Container struct {
	ID      string               `json:"id"`
	Name    string               `json:"name"`
	Session message.WorkspaceKey `json:"session" doc:"Empty for a container in the pool"`
	Sandbox string               `json:"sandbox"`
	State   string               `json:"state"`
	Image   string               `json:"image"`
	Created string               `json:"created"`
	Expires string               `json:"expires"`
}

// SandboxRules says what programs in a configured sandbox may reach.
type SandboxRules struct {
	Name        string   `json:"name" doc:"Empty is [sandbox]"`
	Image       string   `json:"image"`
	Network     string   `json:"network" doc:"none, bridge, host or allowlist"`
	Allow       []string `json:"allow" doc:"What the allowlist has; everything else is refused"`
	Credentials []string `json:"credentials" doc:"The hosts whose requests get a credential"`
	Bridges     []string `json:"bridges" doc:"The commands that run outside of the sandbox"`
	EgressLimit int64    `json:"egress_limit,omitempty" doc:"Bytes of all connections of a container together"`
}

// MaxFolder bounds the entries of a folder that are shown.
const MaxFolder = 2000

// SandboxFolder is a folder of a workspace.
type SandboxFolder struct {
	Ref     string        `json:"ref"`
	Entries []SandboxFile `json:"entries"`
	More    int           `json:"more,omitempty" doc:"How many entries are not shown"`
}

// SandboxFile is an entry of a folder of a workspace. Programs and strangers choose its name.
type SandboxFile struct {
	Name  string    `json:"name" doc:"For people: bytes that are no text are replaced"`
	Ref   string    `json:"ref" doc:"The path, for the parameter ref"`
	Kind  string    `json:"kind" enum:"file,folder,link,other"`
	Size  int64     `json:"size"`
	Mode  string    `json:"mode"`
	Mtime time.Time `json:"mtime,omitzero"`
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// Terminal is a shell on a terminal. Close must be called; it ends everything that the shell started.
type Terminal interface {
	io.ReadWriter
	Resize(TerminalSize) error
	// Ended says how the shell ended, once Read has returned io.EOF.
	Ended() string
	Close() error
}
