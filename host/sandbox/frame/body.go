package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"
)

// Bodies hold paths, names and scripts as byte slices, because JSON strings would mangle
// what is not valid UTF-8.

// Words are texts as bodies hold them.
func Words(texts []string) (words [][]byte) {
	for _, t := range texts {
		words = append(words, []byte(t))
	}
	return words
}

// Texts are the words of a body.
func Texts(words [][]byte) (texts []string) {
	for _, w := range words {
		texts = append(texts, string(w))
	}
	return texts
}

// HelloBody tells the supervisor its duty.
type HelloBody struct {
	UID       int    `json:"uid"` // of the workload, never 0
	GID       int    `json:"gid"`
	Workspace string `json:"workspace"` // absolute path inside
	// ControlSocket is the path of a Unix socket to change to, if the supervisor can reach it.
	ControlSocket string `json:"lane,omitempty"`
	// Proxy asks for the proxy: a loopback port whose connections the host serves.
	Proxy bool `json:"proxy,omitempty"`
	// Bridge asks for the socket of bridged commands, whose connections the host serves as well.
	Bridge bool `json:"bridge,omitempty"`
	// Env is further environment of every command, "NAME=value"; it replaces what the supervisor sets by itself.
	Env [][]byte `json:"env,omitempty"`
	// Mounts are places inside whose identity the welcome tells.
	Mounts [][]byte `json:"mounts,omitempty"`
	// Lease is how long background commands outlast the host, and Secret what it proves itself with when it is back.
	// They count only with a control socket.
	Lease  time.Duration `json:"lease,omitempty"`
	Secret []byte        `json:"secret,omitempty"`
	// Scratch are folders in memory that everybody inside may write to.
	Scratch [][]byte `json:"scratch,omitempty"`
	// DiskBytes and DiskEntries limit what the workspace holds; without bytes there is no limit.
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
	DiskEntries int64 `json:"disk_entries,omitempty"`
}

// WelcomeBody is the supervisor's proof of where it runs. The host compares it with
// what it asked the engine for.
type WelcomeBody struct {
	Version      int    `json:"version"`
	PID          int    `json:"pid"`   // must be 1
	Nonce        string `json:"nonce"` // as given at creation
	NoNewPrivs   bool   `json:"no_new_privs"`
	Seccomp      bool   `json:"seccomp"`
	CapEff       uint64 `json:"cap_eff"`
	CapBnd       uint64 `json:"cap_bnd"`
	RootReadOnly bool   `json:"root_read_only"`
	// WorkspaceMount says that the workspace is a mount of its own.
	WorkspaceMount bool `json:"workspace_mount"`
	// Interfaces are the network interfaces inside.
	Interfaces []string `json:"interfaces,omitempty"`
	// ControlSocket says that all further frames go over the control socket.
	ControlSocket bool `json:"lane,omitempty"`
	// Proxy says that the proxy listens.
	Proxy bool `json:"proxy,omitempty"`
	// Bridge says that the socket of bridged commands is open.
	Bridge bool `json:"bridge,omitempty"`
	// Shell is the path of the program that runs scripts.
	Shell string `json:"shell"`
	// Mounts answer those of the hello, in their order.
	Mounts []FileID `json:"mounts,omitempty"`
	// BootID names the kernel, to which the numbers in Mounts belong.
	BootID string `json:"boot_id,omitempty"`
}

// FileID identifies a file to one kernel; zero if it could not be found.
type FileID struct {
	Dev uint64 `json:"d"`
	Ino uint64 `json:"i"`
}

// Version is the protocol's; both ends come from one build, so they must be equal.
const Version = 3

// ExecBody starts a command.
type ExecBody struct {
	Script     []byte        `json:"script"`
	Dir        []byte        `json:"dir,omitempty"`   // relative to the workspace
	Env        [][]byte      `json:"env,omitempty"`   // "NAME=value", besides the fixed ones
	Stdin      bool          `json:"stdin,omitempty"` // Data on stream In follows
	Timeout    time.Duration `json:"timeout,omitempty"`
	MaxOutput  int64         `json:"max_output"`
	Eager      bool          `json:"eager,omitempty"` // send output as it comes
	Background bool          `json:"background,omitempty"`
	// Argv is a program with its arguments to start without a shell, in place of Script; Cwd is then its absolute working
	// directory, anywhere inside. Its name is looked up in PATH.
	Argv [][]byte `json:"argv,omitempty"`
	Cwd  []byte   `json:"cwd,omitempty"`
	// Process is the number that the host knows a background command by.
	Process int `json:"process,omitempty"`
	// Changes asks for the files that differ afterwards.
	Changes bool `json:"changes,omitempty"`
	// Spill asks for a file with all the output if it is more than MaxOutput, and for the end of each stream: see Tail.
	Spill bool `json:"spill,omitempty"`
	// Live carries the streams whole, as credit allows, and announces the process; MaxOutput does not count.
	Live bool `json:"live,omitempty"`
	// Terminal makes all streams one terminal of that size, with Stdin; output is on stream Out.
	Terminal *Size `json:"terminal,omitempty"`
}

// Size is a terminal's, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// PauseBody pauses the commands of a container that nobody uses, or lets them go on.
type PauseBody struct {
	On bool `json:"asleep,omitempty"` // the name that supervisors of earlier hosts read
}

// ConnectBody says what a program inside has connected to.
type ConnectBody struct {
	Kind ConnectKind `json:"kind"`
}

// ConnectKind names one of the places to connect to.
type ConnectKind string

// The kinds.
const (
	ToProxy  ConnectKind = "proxy"
	ToBridge ConnectKind = "bridge"
)

// StopBody says why a command is ended.
type StopBody struct {
	Cancel bool `json:"cancel,omitempty"` // false: the caller will read the result
}

// SignalBody is a signal for a command's process group.
type SignalBody struct {
	Number int `json:"number"`
}

// StartedBody announces a process.
type StartedBody struct {
	PID int `json:"pid"`
}

// ExitBody is the result of a command.
type ExitBody struct {
	ExitCode int           `json:"exit_code"` // -1 when a signal ended it
	Signal   int           `json:"signal,omitempty"`
	Dropped  int64         `json:"dropped,omitempty"`
	TimedOut bool          `json:"timed_out,omitempty"`
	Canceled bool          `json:"canceled,omitempty"`
	OOM      bool          `json:"oom,omitempty"`
	PidsHit  bool          `json:"pids_hit,omitempty"`
	Wall     time.Duration `json:"wall"`
	CPU      time.Duration `json:"cpu"`
	Kill     *KillBody     `json:"kill,omitempty"`
	DiskHit  bool          `json:"disk_hit,omitempty"`
	// PeakMemory is the resident size of the largest process, in bytes; 0 if it was below the supervisor's own.
	PeakMemory int64 `json:"peak_memory,omitempty"`
	// DroppedErr is the part of Dropped that was stderr's.
	DroppedErr int64 `json:"dropped_err,omitempty"`
	// Spill is the number of the file with all the output; 0 for none.
	Spill   int          `json:"spill,omitempty"`
	Changes *ChangesBody `json:"changes,omitempty"`
}

// KillBody certifies how a command was ended.
type KillBody struct {
	Rung      string        `json:"rung"`
	Took      time.Duration `json:"took"`
	Survivors int           `json:"survivors"`
}

// OutputBody asks for kept output of the background command Process.
type OutputBody struct {
	Process uint32 `json:"process"`
	Offset  int64  `json:"offset"`
	Max     int    `json:"max"`
}

// SweepBody names a finished background command; the Reply's body is a KillBody.
type SweepBody struct {
	Process uint32 `json:"process"`
}

// OutputReply closes an Output request; the bytes came before it as Data on stream Out.
type OutputReply struct {
	Offset  int64 `json:"offset"` // of the first byte
	Next    int64 `json:"next"`
	Dropped int64 `json:"dropped"`
	Running bool  `json:"running"`
}

// ReadBody asks for part of a file. The bytes come as Data on stream Out, then Reply with
// a ReadReply.
type ReadBody struct {
	Path   []byte `json:"path"` // relative to the workspace
	Offset int64  `json:"offset"`
	Max    int64  `json:"max"`
	// Head asks for the file's Entry on stream Err before the bytes, which then end where the file did at that moment.
	Head bool `json:"head,omitempty"`
}

// ReadReply closes a Read.
type ReadReply struct {
	Size int64 `json:"size"` // of the whole file
}

// HeldFolder is a folder in memory that only the supervisor writes to: commands can read what it holds, and change nothing of it.
const HeldFolder = "/.flynn/held"

// WriteBody announces a file; Size bytes follow as Data on stream In, or any number if Size is negative.
type WriteBody struct {
	// Held puts a new file into HeldFolder, by its path relative to that, instead of the workspace. Perm does not count then.
	Held bool   `json:"held,omitempty"`
	Path []byte `json:"path"`
	Perm uint32 `json:"perm"` // 0 keeps the mode of a file that is there, and is 0644 for a new one
	Size int64  `json:"size"`
}

// ListBody asks for a folder's entries. They come as JSON objects of Entry, one a line, on
// stream Out, then an empty Reply.
type ListBody struct {
	Path []byte `json:"path"`
}

// Entry is one entry of a folder.
type Entry struct {
	Name  []byte `json:"n"`
	Size  int64  `json:"s"`
	Mode  uint32 `json:"m"` // st_mode
	Mtime int64  `json:"t"` // Unix nanoseconds
}

// FailBody closes a request that could not be done.
type FailBody struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Code classes a failure.
type Code string

// The codes.
const (
	NotFound   Code = "not_found"
	Outside    Code = "outside"
	NotRegular Code = "not_regular"
	TooLarge   Code = "too_large"
	NoProcess  Code = "no_process" // the pids limit leaves no room for another process
	DiskFull   Code = "disk_full"  // the workspace is over its limit
	Internal   Code = "internal"
)

// Encode returns the wire form of a body. Bodies hold nothing that JSON cannot express.
func Encode(body any) []byte {
	p, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("frame: encode %T: %v", body, err))
	}
	return p
}

// Decode parses a body strictly: unknown fields and trailing bytes are a breach.
func Decode(p []byte, body any) error {
	d := json.NewDecoder(bytes.NewReader(p))
	d.DisallowUnknownFields()
	if err := d.Decode(body); err != nil {
		return fmt.Errorf("%w: body %T: %v", ErrProtocol, body, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: bytes after body %T", ErrProtocol, body)
	}
	return nil
}

// StatBody asks what a path is, links within the workspace followed; the Reply's body is an Entry.
type StatBody struct {
	Path []byte `json:"path"`
}

// RemoveBody removes a file, a link or an empty folder; with All, a folder with everything in it. The Reply is empty.
type RemoveBody struct {
	Path []byte `json:"path"`
	All  bool   `json:"all,omitempty"`
}

// ImportBody puts the records that follow on stream In below a folder, all of them or none. The Reply is empty.
type ImportBody struct {
	Path []byte `json:"path"` // of the folder; made if it is missing
}

// ExportBody asks for a folder's records on stream Out, parents before children. The Reply's body is an ExportReply.
type ExportBody struct {
	Path []byte `json:"path"`
	// Bare asks for records without content.
	Bare bool `json:"bare,omitempty"`
	// Known says that bare records follow on stream In: the files that they still describe come as bare ones, too.
	Known bool `json:"known,omitempty"`
	// MaxFile makes larger files come as bare ones. 0: none is too large
	MaxFile int64 `json:"max_file,omitempty"`
}

// MaxLeft bounds the lists of an ExportReply.
const MaxLeft = 20

// ExportReply closes an Export.
type ExportReply struct {
	Skipped int64 `json:"skipped"` // what is no regular file, folder or link, or could not be read
	// Special and Closed name the first of these, by their paths relative to the folder.
	Special [][]byte `json:"special,omitempty"`
	Closed  [][]byte `json:"closed,omitempty"`
	Torn    int64    `json:"torn"` // files that became shorter while they were read; zeros stand for the rest
}

const (
	// SpillDir is where output beyond the cap is kept, relative to the workspace, as files NUMBER.log.
	SpillDir = ".flynn/output"
	// MaxSpill is the largest such number.
	MaxSpill = 1 << 30
	// MaxTail bounds how much of a stream's end is kept beside its beginning.
	MaxTail = 128 << 10
)

// Tail is how much of a stream's end a command with Spill sends once the stream is longer than limit; what is left of limit
// is its beginning.
func Tail(limit int64) int64 { return min(limit/2, MaxTail) }

// Limits of a ChangesBody.
const (
	// MaxChanges bounds each of its lists.
	MaxChanges = 1000
	// MaxChangedPaths bounds the bytes of all its paths, so that a result fits into a frame.
	MaxChangedPaths = 96 << 10
)

// ChangesBody are the regular files and links that a command has touched, by their paths relative to the workspace, sorted.
type ChangesBody struct {
	Added    [][]byte `json:"added,omitempty"`
	Modified [][]byte `json:"modified,omitempty"`
	Deleted  [][]byte `json:"deleted,omitempty"`
	Partial  bool     `json:"partial,omitempty"`
	// Unread are folders that the command has left closed to its own user, so that what is in them is not known.
	Unread [][]byte `json:"unread,omitempty"`
}

// Check refuses what no supervisor would send: paths that are not clean, or lead out of the workspace.
func (c ChangesBody) Check() error {
	total := 0
	for _, list := range [][][]byte{c.Added, c.Modified, c.Deleted, c.Unread} {
		if len(list) > MaxChanges {
			return fmt.Errorf("%w: %d changed files", ErrProtocol, len(list))
		}
		for i, p := range list {
			total += len(p)
			if !local(p) || i > 0 && bytes.Compare(list[i-1], p) >= 0 {
				return fmt.Errorf("%w: changed file %.100q", ErrProtocol, p)
			}
		}
	}
	if total > MaxChangedPaths {
		return fmt.Errorf("%w: %d bytes of changed files", ErrProtocol, total)
	}
	return nil
}

// local reports whether a path names something below the folder that it is relative to, in the one way there is.
func local(p []byte) bool {
	name := string(p)
	return name != "" && len(name) <= MaxPath && bytes.IndexByte(p, 0) < 0 && path.Clean(name) == name &&
		!path.IsAbs(name) && name != "." && name != ".." && !bytes.HasPrefix(p, []byte("../"))
}
