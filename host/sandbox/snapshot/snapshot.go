// Package snapshot keeps the files of workspaces as they were before a turn changed them, so that a person can undo that.
//
// Start with Store. Take is called before the first call of a turn that may write, and Settle when the turn has ended. Plan says what an undo
// would change, and Undo does it. A snapshot is a list of entries (scan.go); the contents of its files are kept apart and shared with the
// snapshots before it (take.go). An undo is written down before it begins, and completed by Recover after a crash (undo.go).
//
// All access to a workspace goes through package fsroot, so that no link leads out of it. The folder of the Store must not be visible in any
// sandbox. The package does not know what runs in a workspace: its callers see to it that nothing does during an undo.
package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Bounds of the snapshots of one workspace.
const (
	maxSnapshots = 10
	maxEntries   = 100_000
	takeTimeout  = 10 * time.Second
	// maxNames bounds the names that are listed for people.
	maxNames = 200
)

// Config configures a Store.
type Config struct {
	Dir        string // absolute; on the file system of the workspaces, so that contents can be shared
	Workspaces string // root of the workspaces
	// Limit returns how many bytes the snapshots of one workspace may take; 0 means that none are taken.
	Limit func() int64
	// Reserve refuses bytes that a session may not add to what it holds; nil means no limit.
	Reserve func(session message.WorkspaceKey, bytes int64) error
	Log     *slog.Logger
}

// Store has the snapshots of all workspaces. Its methods are safe for concurrent use.
type Store struct {
	Config
	now  func() time.Time
	step func(name string) error // tests stop an undo here; nil otherwise

	mu    sync.Mutex
	locks map[message.WorkspaceKey]*sync.Mutex
}

// New returns a Store. It creates and reads nothing.
func New(c Config) *Store {
	return &Store{Config: c, now: time.Now, locks: map[message.WorkspaceKey]*sync.Mutex{}}
}

// set is the snapshots of one workspace. Its holder has locked them until unlock is called.
type set struct {
	*Store
	session message.WorkspaceKey
	dir     string // of the snapshots
	files   string // the workspace
	index   index
	unlock  func()
}

// index lists the snapshots of a workspace, oldest first.
type index struct {
	Session   message.WorkspaceKey
	Snapshots []entry
	// Notes are for the next turn, which has not been told about them.
	Notes []Note
	Last  *Undone `json:",omitempty"` // the latest undo
}

// Note tells an agent what happened to its files while no turn ran.
type Note struct {
	// Undone is an undo, or nil.
	Undone *Undone `json:",omitempty"`
	// Text is another event, in words of the host.
	Text string `json:",omitempty"`
}

// entry is one snapshot.
type entry struct {
	ID   string
	Turn string // that changed the files afterwards, or the id of an undo
	Undo bool   // it was taken before an undo
	At   time.Time
	// Why says why there is no snapshot; empty if there is one.
	Why string
	// Settled is true if the state at the end of the turn is known.
	Settled bool
}

const (
	indexFile = "index.json"
	blobs     = "blobs"
	before    = ".before"
	after     = ".after"
)

// open locks and reads the snapshots of a session.
func (s *Store) open(session message.WorkspaceKey) (*set, error) {
	s.mu.Lock()
	lock := s.locks[session]
	if lock == nil {
		lock = new(sync.Mutex)
		s.locks[session] = lock
	}
	s.mu.Unlock()
	lock.Lock()
	one := &set{
		Store: s, session: session, dir: s.path(session), files: workspace.Path(s.Workspaces, session), index: index{Session: session}, unlock: lock.Unlock,
	}
	text, err := os.ReadFile(filepath.Join(one.dir, indexFile))
	if err == nil {
		err = json.Unmarshal(text, &one.index)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		lock.Unlock()
		return nil, fmt.Errorf("read snapshots: %w", err)
	}
	one.dropUnbegun()
	return one, nil
}

// dropUnbegun drops the snapshot before an undo that a crash has prevented.
func (s *set) dropUnbegun() {
	if e := s.newest(); e != nil && e.Undo && !e.Settled {
		if _, err := os.Lstat(s.journalOf(s.session)); errors.Is(err, fs.ErrNotExist) {
			s.drop(len(s.index.Snapshots) - 1)
		}
	}
}

func (s *set) drop(i int) { s.index.Snapshots = slices.Delete(s.index.Snapshots, i, i+1) }

func (s *Store) path(session message.WorkspaceKey) string { return workspace.Path(s.Dir, session) }

// save writes the index.
func (s *set) save() error {
	text, err := json.Marshal(s.index)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(s.dir, indexFile), text, 0o600)
}

// newest returns the latest snapshot, or nil.
func (s *set) newest() *entry {
	if n := len(s.index.Snapshots); n > 0 {
		return &s.index.Snapshots[n-1]
	}
	return nil
}

func (s *set) find(id string) *entry {
	i := slices.IndexFunc(s.index.Snapshots, func(e entry) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return &s.index.Snapshots[i]
}

// Latest returns when the files of a session were last about to change, or the zero time if no snapshot says so.
func (s *Store) Latest(session message.WorkspaceKey) time.Time {
	one, err := s.open(session)
	if err != nil {
		s.Log.Warn("cannot read the snapshots of a workspace", "session", session, "error", err)
		return time.Time{}
	}
	defer one.unlock()
	if e := one.newest(); e != nil {
		return e.At
	}
	return time.Time{}
}

// Notes returns what the next turn has to know about the files.
func (s *Store) Notes(session message.WorkspaceKey) []Note {
	if _, err := os.Lstat(s.path(session)); err != nil {
		return nil
	}
	one, err := s.open(session)
	if err != nil {
		s.Log.Warn("cannot read the snapshots of a workspace", "session", session, "error", err)
		return nil
	}
	defer one.unlock()
	return one.index.Notes
}

// Told forgets the first notes, which a turn was told.
func (s *Store) Told(session message.WorkspaceKey, notes int) {
	one, err := s.open(session)
	if err == nil {
		defer one.unlock()
		one.index.Notes = one.index.Notes[min(notes, len(one.index.Notes)):]
		err = one.save()
	}
	if err != nil {
		s.Log.Warn("an agent may be told again what became of its files", "session", session, "error", err)
	}
}

// Note adds a note for the next turn.
func (s *Store) Note(session message.WorkspaceKey, text string) error {
	one, err := s.open(session)
	if err != nil {
		return err
	}
	defer one.unlock()
	one.index.Notes = append(one.index.Notes, Note{Text: text})
	return one.save()
}

// size returns how many bytes the snapshots take.
func (s *set) size() int64 { return quota.Tree(s.dir) }

// Sessions returns the sessions that have snapshots.
func (s *Store) Sessions() (all []message.WorkspaceKey, err error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, "*", indexFile))
	for _, name := range names {
		var of index
		text, failed := os.ReadFile(name)
		if failed == nil {
			failed = json.Unmarshal(text, &of)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("read snapshots: %s: %w", name, failed))
			continue
		}
		all = append(all, of.Session)
	}
	return all, err
}

// Remove removes the snapshots of a session. An undo that was interrupted is not completed any more: see Pending.
func (s *Store) Remove(session message.WorkspaceKey) error {
	one, err := s.open(session)
	if err == nil {
		defer one.unlock()
	}
	// First: without the snapshots, Recover would leave half of the undo.
	if err := os.Remove(s.journalOf(session)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove snapshots: %w", err)
	}
	return removeall.Folder(s.path(session))
}
