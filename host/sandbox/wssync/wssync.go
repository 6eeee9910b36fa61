// Package wssync keeps a session's folder on the host and its volume on an engine elsewhere the same. The host's folder is
// the workspace that lasts; the volume is where commands work on it.
//
// The state that both had last is remembered, over restarts too. So a file that differs in the volume was written by commands, and is
// brought home first; whatever then differs on the host was changed there while no container ran, and goes into the volume.
// It is remembered of one volume: in another, made after that was removed or on another engine, no command has deleted
// what is missing, and the host's folder has it.
//
// Start with Syncer.Begin. The volume is a container's that is up: package link speaks with it. What it sends is believed
// no more than a stranger's archive (package archive), and stays below the folder (package fsroot).
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

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Volume is what a container has of the workspace; *link.Link is one.
type Volume interface {
	// Export hands the records of a folder to read.
	Export(ctx context.Context, body frame.ExportBody, known io.Reader, read func(io.Reader) error) (frame.ExportReply, error)
	// Import unpacks the records that write writes below a folder.
	Import(ctx context.Context, name string, write func(io.Writer) error) error
	// Remove removes an entry, with everything in it.
	Remove(ctx context.Context, name string, all bool) error
}

// Set has the carriers of the sessions; sandboxes of one session share theirs, as they share the workspace.
type Set struct {
	dir string
	log *slog.Logger

	mu  sync.Mutex
	all map[string]*Syncer
}

// NewSet returns a Set that remembers in dir.
func NewSet(dir string, log *slog.Logger) *Set {
	return &Set{dir: dir, log: log, all: make(map[string]*Syncer)}
}

const memoryPrefix = "carry-"

// Of returns the Syncer of a session, whose folder this is. mark tells its volume from those before it.
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

// Forget drops what is remembered of a session whose volume is gone.
func (s *Set) Forget(session, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, session)
	if err := os.Remove(s.memory(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Syncer syncs one session's workspace. Its methods are safe for concurrent use.
type Syncer struct {
	path   string            // of the host's folder
	memory string            // of the file with what is known
	volume [sha256.Size]byte // which one that is about; the file begins with it
	log    *slog.Logger

	busy  chan struct{}           // holds a token while a sync runs
	known map[string]frame.Record // what both had last, as the volume describes it; nil: not read yet. Guarded by busy
}

const (
	// timeout bounds one way of all that has changed.
	timeout = 10 * time.Minute
	// maxCarried bounds the bytes that come home at a time, maxFile those of one file. A larger one stays in the volume.
	maxFile    = 1 << 30
	maxCarried = 16 << 30
)

// Begin makes both the same before the first command of a container runs.
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

// Fetch brings home what has changed inside. A failure loses nothing: the volume keeps it for the next time.
func (c *Syncer) Fetch(ctx context.Context, v Volume) error {
	return c.locked(ctx, func(ctx context.Context, home fsroot.Tree) error { return c.fetch(ctx, v, home) })
}

// locked does something that nobody else of the session does at the same time.
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
