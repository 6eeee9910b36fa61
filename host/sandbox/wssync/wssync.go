// Package wssync synchronises a session's folder on the host with what its containers have in place of it: a volume of a remote engine, or
// a disk of each container's own. The host's folder is the lasting workspace; commands work on the volume.
//
// The last state that both had is remembered, also over restarts. A file in the volume that differs from it was written by commands, and is
// copied to the host first; a file on the host that differs from it then was changed while no container ran, and is copied to the volume.
// The state is that of one volume: in another one, created after the first was removed or on another engine, missing files were not deleted
// by a command, and the host's files win. Containers with disks of their own get each other's changes before their next command.
//
// Start with Syncer.Begin. The volume is that of a running container, to which package link connects. The data from it
// are not trusted, like a stranger's archive (package archive), and stay below the folder (package fsroot).
package wssync

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Volume is a container's access to the workspace; *link.Link implements it.
type Volume interface {
	// Export passes the records of a folder to read.
	Export(ctx context.Context, body frame.ExportBody, known io.Reader, read func(io.Reader) error) (frame.ExportReply, error)
	// Import unpacks the records that write writes below a folder.
	Import(ctx context.Context, name string, write func(io.Writer) error) error
	// Remove removes an entry with everything in it.
	Remove(ctx context.Context, name string, all bool) error
}

// Set holds the Syncers of the sessions; sandboxes of one session share theirs, as they share the workspace.
type Set struct {
	dir string
	log *slog.Logger

	mu  sync.Mutex
	all map[string]*Syncer
	// versions counts the times that commands have changed a folder, by path.
	versions map[string]uint64
}

// NewSet returns a Set that stores the known states in dir.
func NewSet(dir string, log *slog.Logger) *Set {
	return &Set{dir: dir, log: log, all: make(map[string]*Syncer), versions: make(map[string]uint64)}
}

const (
	memoryPrefix = "carry-"
	// OwnPrefix begins the names of the known states of containers' own disks; the rest is the container's key.
	OwnPrefix = "disk-"
)

// Own returns the Syncer of a container with a disk of its own, by the container's key. If the workspace is read-only, changes are not copied
// to the host.
func (s *Set) Own(path, key string, readOnly bool) *Syncer {
	c := s.syncer(path, filepath.Join(s.dir, OwnPrefix+key), sha256.Sum256([]byte(key)))
	c.readOnly = readOnly
	return c
}

func (s *Set) syncer(path, memory string, volume [sha256.Size]byte) *Syncer {
	return &Syncer{set: s, path: path, memory: memory, volume: volume, log: s.log, busy: make(chan struct{}, 1)}
}

// version returns how often commands have changed a folder.
func (s *Set) version(path string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[path]
}

// changed counts a change of a folder, by a Syncer that has seen a version of it, and returns the version that it has seen now.
func (s *Set) changed(path string, seen uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[path]++
	if seen == s.versions[path]-1 {
		seen++
	}
	return seen
}

// Of returns the Syncer of a session with the given folder. mark distinguishes its volume from earlier ones.
func (s *Set) Of(session, path, mark string) *Syncer {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume := sha256.Sum256([]byte(mark))
	if c := s.all[session]; c == nil || c.volume != volume {
		s.all[session] = s.syncer(path, s.memory(path), volume)
	}
	return s.all[session]
}

func (s *Set) memory(path string) string {
	return filepath.Join(s.dir, memoryPrefix+filepath.Base(path))
}

// Forget removes the known state of a session whose volume is gone.
func (s *Set) Forget(session message.WorkspaceKey, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, string(session))
	if err := os.Remove(s.memory(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Syncer synchronises one session's workspace. Its methods are safe for concurrent use.
type Syncer struct {
	set      *Set
	readOnly bool
	path     string            // path of the host's folder
	memory   string            // path of the file with the known state
	volume   [sha256.Size]byte // the volume that the state is about; the file begins with it
	log      *slog.Logger

	seen  atomic.Uint64           // version of the host's folder that the volume has
	busy  chan struct{}           // holds a token while a synchronisation runs
	known map[string]frame.Record // the last common state, as the volume describes it; nil: not read yet. Guarded by busy
	// unsettled are files of known that may have changed since although they look the same. Guarded by busy
	unsettled map[string]bool
}

const (
	// timeout bounds the copying in one direction.
	timeout = 10 * time.Minute
	// maxCarried bounds the bytes copied to the host at a time, maxFile those of one file. A larger one stays in the volume.
	maxFile    = 1 << 30
	maxCarried = 16 << 30
)

// Begin synchronises both before the first command of a container runs.
func (c *Syncer) Begin(ctx context.Context, v Volume) error { return c.begin(ctx, v, false) }

// Adopt is Begin for a container with which another host has worked. If this host has never known its state, everything inside is taken for
// changed by commands, so that it wins; what is only on this host comes to it.
func (c *Syncer) Adopt(ctx context.Context, v Volume) error { return c.begin(ctx, v, true) }

func (c *Syncer) begin(ctx context.Context, v Volume, adopt bool) error {
	return c.locked(ctx, func(ctx context.Context, home fsroot.Tree) error {
		known := c.recall()
		if adopt && !known && !c.readOnly {
			c.known, known = map[string]frame.Record{}, true
		}
		if !c.readOnly && known {
			if err := c.fetch(ctx, v, home); err != nil {
				return err
			}
		}
		now := c.set.version(c.path)
		err := c.bring(ctx, v, home)
		if err == nil {
			c.seen.Store(now)
		}
		return err
	})
}

// Refresh is Begin if another container has changed the workspace since.
func (c *Syncer) Refresh(ctx context.Context, v Volume) error {
	if c.seen.Load() == c.set.version(c.path) {
		return nil
	}
	return c.Begin(ctx, v)
}

// Discard removes the known state of a container's own disk, which is gone.
func (c *Syncer) Discard() {
	if strings.HasPrefix(filepath.Base(c.memory), OwnPrefix) {
		_ = os.Remove(c.memory) // what stays is removed with what dead processes have left
	}
}

// Fetch copies to the host what has changed inside. A failure loses nothing: the volume keeps it for the next time.
func (c *Syncer) Fetch(ctx context.Context, v Volume) error {
	if c.readOnly {
		return nil
	}
	return c.locked(ctx, func(ctx context.Context, home fsroot.Tree) error { return c.fetch(ctx, v, home) })
}

// locked calls do while nobody else synchronises the session.
func (c *Syncer) locked(ctx context.Context, do func(ctx context.Context, home fsroot.Tree) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.busy }()
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return err
	}
	defer root.Close()
	home := fsroot.Tree{Root: root, Mirror: true}
	if os.Geteuid() == 0 {
		lent := workspace.Workload()
		home.Owner = &lent
	}
	return do(ctx, home)
}
