// Package wssync synchronises a session's folder on the host with its volume on a remote engine. The host's folder is the lasting
// workspace; commands work on the volume.
//
// The last state that both had is remembered, also over restarts. A file in the volume that differs from it was written by commands, and is
// copied to the host first; a file on the host that differs from it then was changed while no container ran, and is copied to the volume.
// The state is that of one volume: in another one, created after the first was removed or on another engine, missing files were not deleted
// by a command, and the host's files win.
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
	"sync"
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
}

// NewSet returns a Set that stores the known states in dir.
func NewSet(dir string, log *slog.Logger) *Set {
	return &Set{dir: dir, log: log, all: make(map[string]*Syncer)}
}

const memoryPrefix = "carry-"

// Of returns the Syncer of a session with the given folder. mark distinguishes its volume from earlier ones.
func (s *Set) Of(session, path, mark string) *Syncer {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume := sha256.Sum256([]byte(mark))
	if c := s.all[session]; c == nil || c.volume != volume {
		s.all[session] = &Syncer{path: path, memory: s.memory(path), volume: volume, log: s.log, busy: make(chan struct{}, 1)}
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
	path   string            // path of the host's folder
	memory string            // path of the file with the known state
	volume [sha256.Size]byte // the volume that the state is about; the file begins with it
	log    *slog.Logger

	busy  chan struct{}           // holds a token while a synchronisation runs
	known map[string]frame.Record // the last common state, as the volume describes it; nil: not read yet. Guarded by busy
}

const (
	// timeout bounds the copying in one direction.
	timeout = 10 * time.Minute
	// maxCarried bounds the bytes copied to the host at a time, maxFile those of one file. A larger one stays in the volume.
	maxFile    = 1 << 30
	maxCarried = 16 << 30
)

// Begin synchronises both before the first command of a container runs.
func (c *Syncer) Begin(ctx context.Context, v Volume) error {
	return c.locked(ctx, func(ctx context.Context, home fsroot.Tree) error {
		if c.recall() {
			if err := c.fetch(ctx, v, home); err != nil {
				return err
			}
		}
		return c.bring(ctx, v, home)
	})
}

// Fetch copies to the host what has changed inside. A failure loses nothing: the volume keeps it for the next time.
func (c *Syncer) Fetch(ctx context.Context, v Volume) error {
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
