// Package machine defines what a tool can do to a computer: run commands, keep
// processes, touch files. A tool is written once against Machine and works on
// the host (NewHost in this package) and inside a sandbox session.
//
// It does not decide whether a call may run, and knows nothing of containers.
package machine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Machine is a place with a workspace folder where commands run and files live.
// All paths are relative to the workspace unless absolute; an absolute path must lie inside it.
// Methods are safe for concurrent use and honour the context: when it ends, every process
// that the call started is gone before the method returns.
type Machine interface {
	// Name tells people where this is: "host" or the sandbox's name.
	Name() string
	// Exec runs a command and waits for it. What it leaves in the background is ended with it: Start is for
	// what should go on. A command that the context ends is a Result, not an error.
	Exec(ctx context.Context, cmd Command) (Result, error)
	// Start runs a command in the background; its output is kept for Output. The context covers the start alone,
	// and a Timeout of zero is none.
	Start(ctx context.Context, cmd Command) (Process, error)
	Processes(ctx context.Context) ([]Process, error)
	// Output returns what a background process wrote from offset on, at most max bytes.
	Output(ctx context.Context, id string, offset int64, max int) (Output, error)
	// Kill ends a background process with everything it started and reports how.
	Kill(ctx context.Context, id string) (Process, error)
	// ReadFile returns at most max bytes from offset on, and the size of the whole file. An offset past the end gives no data.
	ReadFile(ctx context.Context, path string, offset int64, max int64) (data []byte, size int64, err error)
	// WriteFile replaces a file atomically, creating parent folders inside the workspace. A perm of zero keeps
	// the mode that is there, and is 0644 for a new file.
	WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error
	// List returns the entries of a folder, sorted by name.
	List(ctx context.Context, path string) ([]FileInfo, error)
}

// Command is one command line to run with /bin/sh -c.
type Command struct {
	Script string
	Dir    string // working directory; empty means the workspace
	Env    map[string]string
	Stdin  []byte
	// Timeout ends the command; zero means the machine's default.
	Timeout time.Duration
	// MaxOutput caps stdout and stderr each, in bytes; zero means DefaultMaxOutput. What is
	// beyond it is dropped at the source and counted.
	MaxOutput int
	// Changes asks for the files that differ afterwards.
	Changes bool
	// KeepHome asks, on the host, for a HOME that outlasts the command: for a program of the configuration, which goes on where it
	// stopped. Without it HOME is empty.
	KeepHome bool
	// Spill asks for output beyond the cap to be kept in a file of the workspace. Each stream of the result then has the
	// beginning and the end of what was written, within the cap, and between them a line that says how much was left out.
	Spill bool
	// Progress, if set, receives output as it comes. It must not block for long.
	Progress func(stream Stream, p []byte)
}

// DefaultMaxOutput is the cap of a stream when the command names none.
const DefaultMaxOutput = 256 << 10

// Stream tells stdout from stderr.
type Stream uint8

// The output streams of a command.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Result is how a finished command ended.
type Result struct {
	ExitCode int    `json:"exit_code"`        // 0 to 255; -1 when a signal ended it
	Signal   string `json:"signal,omitempty"` // "SIGKILL"
	Stdout   []byte `json:"stdout,omitempty"`
	Stderr   []byte `json:"stderr,omitempty"`
	Dropped  int64  `json:"dropped,omitempty"` // bytes of output beyond the cap
	TimedOut bool   `json:"timed_out,omitempty"`
	Canceled bool   `json:"canceled,omitempty"`
	OOM      bool   `json:"oom,omitempty"`
	PidsHit  bool   `json:"pids_hit,omitempty"` // a fork was refused by the pids limit
	DiskHit  bool   `json:"disk_hit,omitempty"` // ended because the workspace outgrew its limit

	Wall time.Duration `json:"wall_ns"`
	CPU  time.Duration `json:"cpu_ns"`
	// PeakMemory is the resident size of the largest process, in bytes; 0 if it is not known.
	PeakMemory int64 `json:"peak_memory,omitempty"`
	// Shell is the program that ran the script, where that may be another than /bin/sh.
	Shell string `json:"shell,omitempty"`
	// Changes is set when the command asked for it and the machine can tell.
	Changes *Changes `json:"changes,omitempty"`
	// Spill is the path of a workspace file with each stream's output from its first byte on, as far as it was kept, if
	// anything was dropped and the command asked for it.
	Spill string `json:"spill,omitempty"`
	// Kill is set when the machine had to end the command.
	Kill *Kill `json:"kill,omitempty"`
	// News are lines about the machine that no earlier result of it had: which shell it has, which of its services have ended.
	News []string `json:"news,omitempty"`
}

// Changes are the regular files and links of the workspace that a command has touched, by their paths relative to it, sorted.
type Changes struct {
	Added    []string `json:"added,omitempty"`
	Modified []string `json:"modified,omitempty"`
	Deleted  []string `json:"deleted,omitempty"`
	// Unread are folders that the command has left closed to its own user: what is in them is not known.
	Unread []string `json:"unread,omitempty"`
	// Partial says that there are more: the workspace is too large to look through.
	Partial bool `json:"partial,omitempty"`
}

// Kill certifies how a command was ended.
type Kill struct {
	Rung      string        `json:"rung"` // "term", "kill", "sweep", "uid", "container"
	Took      time.Duration `json:"took_ns"`
	Survivors int           `json:"survivors"` // must be 0
}

// Process is a background process.
type Process struct {
	ID      string    `json:"id"` // the machine's handle
	PID     int       `json:"pid"`
	Script  string    `json:"command"`
	Started time.Time `json:"started"`
	Running bool      `json:"running"`
	Result  *Result   `json:"result,omitempty"` // once it ended; streams empty
	News    []string  `json:"news,omitempty"`   // of Start only; as a Result has them
}

// Output is a piece of a background process's joined output.
type Output struct {
	Data    []byte
	Offset  int64 // of Data's first byte
	Next    int64
	Dropped int64 // bytes no longer kept
	Running bool
}

// FileInfo describes one entry of a folder.
type FileInfo struct {
	Name  string      `json:"name"`
	Size  int64       `json:"size"`
	Mode  fs.FileMode `json:"mode"`
	Mtime time.Time   `json:"mtime"`
}

// Errors that a tool tells apart. Everything else is an infrastructure failure.
var (
	ErrNotFound    = errors.New("no such file or process")
	ErrOutside     = errors.New("path leaves the workspace")
	ErrNotRegular  = errors.New("not a regular file")
	ErrTooLarge    = errors.New("file is too large")
	ErrUnavailable = errors.New("sandbox is unavailable")
	// ErrFull refuses whatever could make an overfull workspace grow.
	ErrFull = errors.New("the workspace is over its disk limit: delete something first; until then only command lines of rm, find, rmdir, chmod, du and ls run")
)

// Reason is why a sandbox is unavailable, for a sentence that has said already that it is.
func Reason(err error) string {
	return strings.TrimPrefix(err.Error(), ErrUnavailable.Error()+": ")
}

// Closer is implemented by machines that hold resources of a session.
type Closer interface{ io.Closer }

// Live is a process that somebody is talking to. Nothing that it writes is lost or capped, and it is held up when nobody reads.
// Close it in any case; that ends it with everything it started.
type Live struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.Reader
	// Wait waits for the result, which comes when the process has ended and its output has been read.
	Wait  func(ctx context.Context) (Result, error)
	Close func() error
}

// Talker is a Machine whose processes can be talked to while they run. The end of ctx, or the command's Timeout, ends the process with
// everything it started, and the result says how.
type Talker interface {
	Talk(ctx context.Context, cmd Command) (*Live, error)
}
