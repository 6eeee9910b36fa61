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

// Machine is a computer with a workspace folder in which commands run. All paths are relative to the workspace unless absolute; an absolute
// path must lie inside it. Methods are safe for concurrent use and observe the context: when it ends, every process that the call started
// is gone before the method returns.
type Machine interface {
	// Name names the machine for people: "host" or the sandbox's name.
	Name() string
	// Exec runs a command and waits for it. Processes that it leaves in the background are ended; use Start for those that should continue.
	// A command that the context ends is a Result, not an error.
	Exec(ctx context.Context, cmd Command) (Result, error)
	// Start runs a command in the background; its output is kept for Output. The context is for starting only, and a Timeout of zero means
	// none.
	Start(ctx context.Context, cmd Command) (Process, error)
	Processes(ctx context.Context) ([]Process, error)
	// Output returns what a background process wrote from offset on, at most max bytes.
	Output(ctx context.Context, id string, offset int64, max int) (Output, error)
	// Kill ends a background process with everything that it started and reports how.
	Kill(ctx context.Context, id string) (Process, error)
	// ReadFile returns at most max bytes from offset on, and the size of the whole file. An offset past the end returns no data.
	ReadFile(ctx context.Context, path string, offset int64, max int64) (data []byte, size int64, err error)
	// WriteFile replaces a file atomically, creating parent folders inside the workspace. A perm of zero keeps the mode of an existing
	// file, and means 0644 for a new one.
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
	// MaxOutput caps stdout and stderr each, in bytes; zero means DefaultMaxOutput. Further output is dropped at the source and counted.
	MaxOutput int
	// Changes requests the list of files that the command changed.
	Changes bool
	// KeepHome requests, on the host, a HOME that is kept after the command: for a program of the configuration that continues where it
	// stopped. Without it HOME is empty.
	KeepHome bool
	// Spill requests that output beyond the cap is kept in a file of the workspace. Each stream of the result then has the beginning and
	// the end of the output, within the cap, and a line in between that says how much was left out.
	Spill bool
	// Progress, if set, receives output as it arrives. It must not block for long.
	Progress func(stream Stream, p []byte)
}

// DefaultMaxOutput is the cap of each stream if the command sets none.
const DefaultMaxOutput = 256 << 10

// Stream is stdout or stderr.
type Stream uint8

// The output streams of a command.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Result is the result of a finished command.
type Result struct {
	ExitCode int    `json:"exit_code"`        // 0 to 255; -1 if a signal ended it
	Signal   string `json:"signal,omitempty"` // "SIGKILL"
	Stdout   []byte `json:"stdout,omitempty"`
	Stderr   []byte `json:"stderr,omitempty"`
	Dropped  int64  `json:"dropped,omitempty"` // bytes of output beyond the cap
	TimedOut bool   `json:"timed_out,omitempty"`
	Canceled bool   `json:"canceled,omitempty"`
	OOM      bool   `json:"oom,omitempty"`
	PidsHit  bool   `json:"pids_hit,omitempty"` // a fork failed because of the process limit
	DiskHit  bool   `json:"disk_hit,omitempty"` // ended because the workspace exceeded its limit

	Wall time.Duration `json:"wall_ns"`
	CPU  time.Duration `json:"cpu_ns"`
	// PeakMemory is the resident size of the largest process, in bytes; 0 if it is not known.
	PeakMemory int64 `json:"peak_memory,omitempty"`
	// Shell is the program that ran the script, if it may be another than /bin/sh.
	Shell string `json:"shell,omitempty"`
	// Changes is set if the command requested it and the machine supports it.
	Changes *Changes `json:"changes,omitempty"`
	// Spill is the path of a workspace file with the complete output, as far as it was kept, if the command requested it and anything was
	// dropped.
	Spill string `json:"spill,omitempty"`
	// Kill is set if the machine had to end the command.
	Kill *Kill `json:"kill,omitempty"`
	// News are messages about the machine, each returned once: which shell it has, which of its services have ended.
	News []string `json:"news,omitempty"`
}

// Changes lists the regular files and links of the workspace that a command has changed, by relative path, sorted.
type Changes struct {
	Added    []string `json:"added,omitempty"`
	Modified []string `json:"modified,omitempty"`
	Deleted  []string `json:"deleted,omitempty"`
	// Unread are folders that the command has made unreadable for its own user: their content is not known.
	Unread []string `json:"unread,omitempty"`
	// Partial means that there are more: the workspace is too large to be searched.
	Partial bool `json:"partial,omitempty"`
}

// Kill reports how a command was ended.
type Kill struct {
	Rung      string        `json:"rung"` // "term", "kill", "sweep", "uid", "container"
	Took      time.Duration `json:"took_ns"`
	Survivors int           `json:"survivors"` // must be 0
}

// Process is a background process.
type Process struct {
	ID      string    `json:"id"` // assigned by the machine
	PID     int       `json:"pid"`
	Script  string    `json:"command"`
	Started time.Time `json:"started"`
	Running bool      `json:"running"`
	Result  *Result   `json:"result,omitempty"` // after it has ended; without output
	News    []string  `json:"news,omitempty"`   // set by Start only; like Result.News
}

// Output is a piece of the joined output of a background process.
type Output struct {
	Data    []byte
	Offset  int64 // of Data's first byte
	Next    int64
	Dropped int64 // bytes that are not kept any more
	Running bool
}

// FileInfo describes one entry of a folder.
type FileInfo struct {
	Name  string      `json:"name"`
	Size  int64       `json:"size"`
	Mode  fs.FileMode `json:"mode"`
	Mtime time.Time   `json:"mtime"`
}

// Errors that tools distinguish. Any other error is a failure of the infrastructure.
var (
	ErrNotFound    = errors.New("no such file or process")
	ErrOutside     = errors.New("path leaves the workspace")
	ErrNotRegular  = errors.New("not a regular file")
	ErrTooLarge    = errors.New("file is too large")
	ErrUnavailable = errors.New("sandbox is unavailable")
	// ErrFull refuses what could make a workspace grow that exceeds its limit.
	ErrFull = errors.New("the workspace is over its disk limit: delete something first; until then only command lines of rm, find, rmdir, chmod, du and ls run")
)

// Reason returns why a sandbox is unavailable, for a message that says already that it is.
func Reason(err error) string {
	return strings.TrimPrefix(err.Error(), ErrUnavailable.Error()+": ")
}

// Closer is implemented by machines that hold resources of a session.
type Closer interface{ io.Closer }

// Live is an interactive process. No output is lost or capped, and the process blocks while nobody reads. Close must always be called; it
// ends the process with everything that it started.
type Live struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.Reader
	// Wait waits for the result, which requires that the output is read meanwhile.
	Wait  func(ctx context.Context) (Result, error)
	Close func() error
}

// Talker is a Machine that supports interactive processes. The end of ctx, or the command's Timeout, ends the process with everything that
// it started, and the result says how.
type Talker interface {
	Talk(ctx context.Context, cmd Command) (*Live, error)
}
