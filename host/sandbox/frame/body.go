package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"
)

// Bodies hold paths, names and scripts as byte slices, because JSON strings would change invalid UTF-8.

// Words converts texts to the form that bodies use.
func Words(texts []string) (words [][]byte) {
	for _, t := range texts {
		words = append(words, []byte(t))
	}
	return words
}

// Texts is the inverse of Words.
func Texts(words [][]byte) (texts []string) {
	for _, w := range words {
		texts = append(texts, string(w))
	}
	return texts
}

// HelloBody configures the supervisor.
type HelloBody struct {
	UID       int    `json:"uid"` // of the workload; never 0
	GID       int    `json:"gid"`
	Workspace string `json:"workspace"` // absolute path inside
	// ControlSocket is the path of a Unix socket to switch to if the supervisor can reach it. A supervisor whose standard streams are a
	// socket of the host stays there, and finds a later host at this path.
	ControlSocket string `json:"lane,omitempty"`
	// Proxy requests the proxy: a loopback port whose connections the host serves.
	Proxy bool `json:"proxy,omitempty"`
	// Bridge requests the socket of bridged commands, whose connections the host serves too.
	Bridge bool `json:"bridge,omitempty"`
	// Env is added to the environment of every command, as "NAME=value"; it overrides what the supervisor sets.
	Env [][]byte `json:"env,omitempty"`
	// Mounts are paths inside whose file ids the welcome reports.
	Mounts [][]byte `json:"mounts,omitempty"`
	// Lease is how long background commands outlive the host, and Secret proves a returning host's identity. They require a control socket,
	// or a supervisor that listens. Epoch is the host's; that of a returning one is higher.
	Lease  time.Duration `json:"lease,omitempty"`
	Secret []byte        `json:"secret,omitempty"`
	Epoch  uint64        `json:"epoch,omitempty"`
	// Scratch are folders in memory that every user inside may write to.
	Scratch [][]byte `json:"scratch,omitempty"`
	// DiskBytes and DiskEntries limit the workspace; if DiskBytes is 0 there is no limit.
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
	DiskEntries int64 `json:"disk_entries,omitempty"`
}

// WelcomeBody reports the supervisor's environment. The host compares it with what it requested from the engine.
type WelcomeBody struct {
	Version      int    `json:"version"`
	PID          int    `json:"pid"`   // must be 1
	Nonce        string `json:"nonce"` // as given when the container was created
	NoNewPrivs   bool   `json:"no_new_privs"`
	Seccomp      bool   `json:"seccomp"`
	CapEff       uint64 `json:"cap_eff"`
	CapBnd       uint64 `json:"cap_bnd"`
	RootReadOnly bool   `json:"root_read_only"`
	// WorkspaceMount reports whether the workspace is a mount point.
	WorkspaceMount bool `json:"workspace_mount"`
	// Interfaces are the network interfaces inside.
	Interfaces []string `json:"interfaces,omitempty"`
	// ControlSocket reports whether all further frames use the control socket, or only those of a later host.
	ControlSocket bool `json:"lane,omitempty"`
	// Proxy reports whether the proxy listens.
	Proxy bool `json:"proxy,omitempty"`
	// Bridge reports whether the socket of bridged commands is open.
	Bridge bool `json:"bridge,omitempty"`
	// Shell is the path of the program that runs scripts.
	Shell string `json:"shell"`
	// Mounts are the ids of the hello's mounts, in the same order.
	Mounts []FileID `json:"mounts,omitempty"`
	// BootID identifies the running kernel, for which the ids in Mounts are valid.
	BootID string `json:"boot_id,omitempty"`
}

// FileID identifies a file to one kernel; it is zero if the file does not exist.
type FileID struct {
	Dev uint64 `json:"d"`
	Ino uint64 `json:"i"`
}

// Version is that of the protocol. Both ends come from the same build, so it must be equal.
const Version = 5

// ExecBody starts a command.
type ExecBody struct {
	Script     []byte        `json:"script"`
	Dir        []byte        `json:"dir,omitempty"`   // relative to the workspace
	Env        [][]byte      `json:"env,omitempty"`   // "NAME=value", in addition to the fixed ones
	Stdin      bool          `json:"stdin,omitempty"` // Data on stream In follows
	Timeout    time.Duration `json:"timeout,omitempty"`
	MaxOutput  int64         `json:"max_output"`
	Eager      bool          `json:"eager,omitempty"` // send output without delay
	Background bool          `json:"background,omitempty"`
	// Argv is a command line to run without a shell, instead of Script; Cwd is then the absolute working directory, anywhere inside. The
	// program is looked up in PATH.
	Argv [][]byte `json:"argv,omitempty"`
	Cwd  []byte   `json:"cwd,omitempty"`
	// Process is the number by which the host knows a background command.
	Process int `json:"process,omitempty"`
	// Changes requests the list of files that the command changed.
	Changes bool `json:"changes,omitempty"`
	// Spill requests a file with all output if there is more than MaxOutput, and the end of each stream: see Tail.
	Spill bool `json:"spill,omitempty"`
	// Live streams the complete output, limited by credit, and announces the process; MaxOutput is ignored.
	Live bool `json:"live,omitempty"`
	// Terminal connects all streams, including Stdin, to one terminal of that size; output is on stream Out.
	Terminal *Size `json:"terminal,omitempty"`
}

// Size is the size of a terminal in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// PauseBody pauses or resumes the commands of an idle container.
type PauseBody struct {
	On bool `json:"asleep,omitempty"` // the name that older supervisors understand
}

// ConnectBody says what a program inside has connected to.
type ConnectBody struct {
	Kind ConnectKind `json:"kind"`
}

// ConnectKind is the kind of a connection.
type ConnectKind string

// The kinds.
const (
	ToProxy  ConnectKind = "proxy"
	ToBridge ConnectKind = "bridge"
)

// DialBody is a TCP port of the loopback interface inside. Reply and Fail end the request when either side has closed the connection.
type DialBody struct {
	Port uint16 `json:"port"`
}

// MaxListened bounds the ports of a ListenReply.
const MaxListened = 64

// ListenReply has the TCP ports on which programs inside can be reached over loopback, lowest first, without those of the supervisor.
type ListenReply struct {
	Ports []uint16 `json:"ports,omitempty"`
	More  bool     `json:"more,omitempty"` // there are further ones
}

// Check refuses what no correct supervisor sends.
func (r ListenReply) Check() error {
	for i, port := range r.Ports {
		if i >= MaxListened || port == 0 || i > 0 && r.Ports[i-1] >= port {
			return fmt.Errorf("%w: listening port %d", ErrProtocol, port)
		}
	}
	return nil
}

// StopBody says why a command is ended.
type StopBody struct {
	Cancel bool `json:"cancel,omitempty"` // false: the caller still reads the result
}

// SignalBody is a signal to a command's process group.
type SignalBody struct {
	Number int `json:"number"`
}

// StartedBody announces a process.
type StartedBody struct {
	PID int `json:"pid"`
}

// ExitBody is the result of a command.
type ExitBody struct {
	ExitCode int           `json:"exit_code"` // -1 if a signal ended it
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
	// PeakMemory is the resident size of the largest process in bytes; 0 if it was below the supervisor's own.
	PeakMemory int64 `json:"peak_memory,omitempty"`
	// DroppedErr is the part of Dropped from stderr.
	DroppedErr int64 `json:"dropped_err,omitempty"`
	// Spill is the number of the file with all output; 0 for none.
	Spill   int          `json:"spill,omitempty"`
	Changes *ChangesBody `json:"changes,omitempty"`
}

// KillBody reports how a command was ended.
type KillBody struct {
	Rung      string        `json:"rung"`
	Took      time.Duration `json:"took"`
	Survivors int           `json:"survivors"`
}

// OutputBody requests kept output of the background command Process.
type OutputBody struct {
	Process uint32 `json:"process"`
	Offset  int64  `json:"offset"`
	Max     int    `json:"max"`
}

// SweepBody names a finished background command; the Reply's body is a KillBody.
type SweepBody struct {
	Process uint32 `json:"process"`
}

// OutputReply ends an Output request; the bytes precede it as Data on stream Out.
type OutputReply struct {
	Offset  int64 `json:"offset"` // of the first byte
	Next    int64 `json:"next"`
	Dropped int64 `json:"dropped"`
	Running bool  `json:"running"`
}

// ReadBody requests part of a file. The bytes come as Data on stream Out, followed by a Reply with a ReadReply.
type ReadBody struct {
	Path   []byte `json:"path"` // relative to the workspace
	Offset int64  `json:"offset"`
	Max    int64  `json:"max"`
	// Head requests the file's Entry on stream Err before the bytes, which then end at the size that it reports.
	Head bool `json:"head,omitempty"`
}

// ReadReply ends a Read.
type ReadReply struct {
	Size int64 `json:"size"` // of the whole file
}

// HeldFolder is a folder in memory that commands can read and only the supervisor can write.
const HeldFolder = "/.flynn/held"

// WriteBody announces a file; Size bytes follow as Data on stream In, or any number if Size is negative.
type WriteBody struct {
	// Held writes a new file to HeldFolder, by its relative path, instead of the workspace. Perm is ignored then.
	Held bool   `json:"held,omitempty"`
	Path []byte `json:"path"`
	Perm uint32 `json:"perm"` // 0 keeps the mode of an existing file, and means 0644 for a new one
	Size int64  `json:"size"`
}

// ListBody requests a folder's entries. They come as JSON objects of Entry, one per line, on stream Out, followed by an empty Reply.
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

// FailBody ends a request that failed.
type FailBody struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Code classifies a failure.
type Code string

// The codes.
const (
	NotFound   Code = "not_found"
	Outside    Code = "outside"
	NotRegular Code = "not_regular"
	TooLarge   Code = "too_large"
	NoProcess  Code = "no_process" // the process limit is reached
	DiskFull   Code = "disk_full"  // the workspace exceeds its limit
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

// Decode parses a body strictly: unknown fields and trailing bytes are protocol errors.
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

// StatBody requests the Entry of a path, following links within the workspace.
type StatBody struct {
	Path []byte `json:"path"`
}

// RemoveBody removes a file, a link or an empty folder; with All, a folder with everything in it. The Reply is empty.
type RemoveBody struct {
	Path []byte `json:"path"`
	All  bool   `json:"all,omitempty"`
}

// ImportBody unpacks the records that follow on stream In below a folder, all or none. The Reply is empty.
type ImportBody struct {
	Path []byte `json:"path"` // of the folder, created if missing
}

// ExportBody requests a folder's records on stream Out, parents before children. The Reply's body is an ExportReply.
type ExportBody struct {
	Path []byte `json:"path"`
	// Bare requests records without content.
	Bare bool `json:"bare,omitempty"`
	// Known announces bare records on stream In: files that still match them are sent as bare records, too.
	Known bool `json:"known,omitempty"`
	// MaxFile is the size above which files are sent as bare records; 0 means no limit.
	MaxFile int64 `json:"max_file,omitempty"`
}

// MaxLeft bounds the lists of an ExportReply.
const MaxLeft = 20

// ExportReply ends an Export.
type ExportReply struct {
	Skipped int64 `json:"skipped"` // neither a regular file, folder nor link, or not readable
	// Special and Closed list the first of these, by path relative to the folder.
	Special [][]byte `json:"special,omitempty"`
	Closed  [][]byte `json:"closed,omitempty"`
	Torn    int64    `json:"torn"` // files that shrank while they were read; they are padded with zeros
	// Began is when the export began, in nanoseconds since 1970 by the clock that sets the times of files.
	Began int64 `json:"began"`
}

const (
	// SpillDir is the folder for output beyond the cap, relative to the workspace, in files NUMBER.log.
	SpillDir = ".flynn/output"
	// MaxSpill is the largest such number.
	MaxSpill = 1 << 30
	// MaxTail bounds how much of the end of a stream is kept in addition to its beginning.
	MaxTail = 128 << 10
)

// Tail returns how much of the end of a stream a command with Spill sends once the stream is longer than limit; the rest of limit is its
// beginning.
func Tail(limit int64) int64 { return min(limit/2, MaxTail) }

// Limits of a ChangesBody.
const (
	// MaxChanges bounds each of its lists.
	MaxChanges = 1000
	// MaxChangedPaths bounds the bytes of all its paths, so that a result fits into a frame.
	MaxChangedPaths = 96 << 10
)

// ChangesBody lists the regular files and links that a command has changed, by path relative to the workspace, sorted.
type ChangesBody struct {
	Added    [][]byte `json:"added,omitempty"`
	Modified [][]byte `json:"modified,omitempty"`
	Deleted  [][]byte `json:"deleted,omitempty"`
	Partial  bool     `json:"partial,omitempty"`
	// Unread are folders that the command has made unreadable for its own user, so that their content is not known.
	Unread [][]byte `json:"unread,omitempty"`
}

// Check refuses what no correct supervisor sends: paths that are not clean or lead out of the workspace.
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

// local reports whether a path is a clean path below the folder that it is relative to.
func local(p []byte) bool {
	name := string(p)
	return name != "" && len(name) <= MaxPath && bytes.IndexByte(p, 0) < 0 && path.Clean(name) == name &&
		!path.IsAbs(name) && name != "." && name != ".." && !bytes.HasPrefix(p, []byte("../"))
}
