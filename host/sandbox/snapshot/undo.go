package snapshot

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// An undo changes many files, and a crash in between must leave neither the old nor the new state. All steps are written to a journal
// first. They can be done again from the beginning at any time, because they name the contents that files get and not those that they have. The journal stays until its owner has recorded the undo.

// Request is a confirmed undo.
type Request struct {
	Code string // of the plan that was confirmed, in any case
	// Overwrite undoes files that have changed since, too.
	Overwrite bool
	By        message.SenderKey
	Name      string // of the person, for the agent
}

// Undone is an undo that was carried out and is not recorded yet.
type Undone struct {
	ID      string
	Session message.WorkspaceKey
	By      message.SenderKey
	Name    string // of the person
	At      time.Time
	Plan    Plan // with Left
	// Overwrote is true if files that had changed since were undone, too.
	Overwrote bool
	// Again is true for the answer to an undo that was carried out before.
	Again bool `json:"-"`
}

// ErrChanged is the error of an undo whose plan is another one by now.
var ErrChanged = errors.New("this is not the code of what would be undone now, because the files have changed or the code is wrong: look again at what would be undone")

const journals = ".undo"

// journal is what an undo has to do.
type journal struct {
	Undone
	Remove []string
	Put    []file
	Done   bool
}

// Undo brings the files of a session back. Nothing may run in the workspace. The
// caller records what is returned, and calls Recorded.
func (s *Store) Undo(ctx context.Context, session message.WorkspaceKey, r Request) (Undone, error) {
	one, err := s.open(session)
	if err != nil {
		return Undone{}, err
	}
	defer one.unlock()
	r.Code = strings.ToUpper(r.Code)
	if last := one.index.Last; last != nil && r.Code != "" && last.Plan.Code == r.Code {
		again := *last // the caller died before it could say so
		again.Again = true
		return again, nil
	}
	w, err := one.plan(ctx, backOf(r.Code))
	switch {
	case err != nil:
		return Undone{}, err
	case w.Code == "" || w.Code != r.Code:
		return Undone{Plan: w.Plan}, ErrChanged
	}
	kept, err := one.take(ctx, entry{Undo: true}, w.target.ID)
	if err != nil {
		return Undone{}, err
	}
	if kept.Why != "" && w.Final == "" {
		one.drop(len(one.index.Snapshots) - 1)
		return Undone{}, errors.Join(fmt.Errorf("nothing was undone, because that could not be undone again: %s", kept.Why), one.save())
	}
	j := journal{Undone: Undone{ID: kept.ID, Session: session, By: r.By, Name: r.Name, At: s.now().UTC(), Plan: w.Plan, Overwrote: r.Overwrite}}
	for _, name := range w.remove {
		if r.Overwrite || !w.again[name] {
			j.Remove = append(j.Remove, name)
		}
	}
	for _, f := range w.put {
		if r.Overwrite || !w.again[f.Path] {
			j.Put = append(j.Put, f)
		}
	}
	if err := s.reach("journal"); err != nil {
		return Undone{}, err
	}
	if err := s.writeJournal(j); err != nil {
		return Undone{}, err
	}
	return one.complete(j)
}

// reach lets tests stop an undo between any two steps.
func (s *Store) reach(step string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step)
}

// complete does what a journal says, from the beginning.
func (s *set) complete(j journal) (Undone, error) {
	if j.Done {
		return j.Undone, nil
	}
	j.Plan.Left = nil
	if err := s.apply(&j); err != nil {
		return Undone{}, err
	}
	if e := s.find(j.ID); e != nil {
		if err := s.settle(context.Background(), e); err != nil {
			return Undone{}, err
		}
	}
	if err := s.reach("settled"); err != nil {
		return Undone{}, err
	}
	s.index.Last = &j.Undone
	if !slices.ContainsFunc(s.index.Notes, func(n Note) bool { return n.Undone != nil && n.Undone.ID == j.ID }) {
		s.index.Notes = append(s.index.Notes, Note{Undone: &j.Undone})
	}
	if err := errors.Join(s.save(), s.reach("noted")); err != nil {
		return Undone{}, err
	}
	j.Done = true
	return j.Undone, errors.Join(s.writeJournal(j), s.reach("done"))
}

// apply changes the files. An entry that cannot be changed is left, and named.
func (s *set) apply(j *journal) error {
	tree, err := openTree(s.files, nil)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.files, 0o700); err == nil {
			tree, err = openTree(s.files, nil)
		}
	}
	if err != nil {
		return err
	}
	defer tree.Root.Close()
	tree.Mirror = false
	leave := func(name string, err error) {
		if len(j.Plan.Left) < maxNames {
			j.Plan.Left = append(j.Plan.Left, fmt.Sprintf("%s: %s", name, reason(err)))
		}
	}
	for _, name := range j.Remove {
		if err := s.reach("remove " + name); err != nil {
			return err
		}
		if err := tree.Root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			leave(name, err)
		}
	}
	for _, f := range j.Put {
		if err := s.reach("put " + f.Path); err != nil {
			return err
		}
		if err := s.put(tree, f); err != nil {
			leave(f.Path, err)
		}
	}
	return nil
}

// put makes an entry as it was kept.
func (s *set) put(to fsroot.Tree, f file) error {
	to.Owner = f.owner()
	if !f.regular() {
		return to.Put(f.record(), nil)
	}
	content, err := os.Open(filepath.Join(s.dir, blobs, f.Blob))
	if err != nil {
		return err
	}
	defer content.Close()
	return to.Put(f.record(), content)
}

// owner returns whom a new entry is given to; nil if this process may not do that.
func (f file) owner() *workspace.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	return &workspace.Owner{UID: f.UID, GID: f.GID}
}

// reason returns an error without the paths that it names.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	if errors.Is(err, syscall.ENOTEMPTY) {
		return "other files are in it"
	}
	return err.Error()
}

func (s *Store) journalOf(session message.WorkspaceKey) string {
	return filepath.Join(s.Dir, journals, workspace.Name(session))
}

func (s *Store) writeJournal(j journal) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(j); err != nil {
		return err
	}
	name := s.journalOf(j.Session)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(name, text.Bytes(), 0o600)
}

// Recover completes the undos that a crash has interrupted, and returns all that are not recorded. Call it before anything runs in a
// workspace.
func (s *Store) Recover() (all []Undone, errs error) {
	errs = s.clearCopies()
	names, err := os.ReadDir(filepath.Join(s.Dir, journals))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, errors.Join(errs, err)
	}
	for _, n := range names {
		done, err := s.recover(filepath.Join(s.Dir, journals, n.Name()))
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("complete an undo: %w", err))
			continue
		}
		all = append(all, done)
	}
	return all, errs
}

func (s *Store) recover(name string) (Undone, error) {
	var j journal
	f, err := os.Open(name)
	if err != nil {
		return Undone{}, err
	}
	defer f.Close()
	if err := gob.NewDecoder(f).Decode(&j); err != nil {
		return Undone{}, err
	}
	one, err := s.open(j.Session)
	if err != nil {
		return Undone{}, err
	}
	defer one.unlock()
	if !j.Done {
		one.clearDrafts(j.Put)
	}
	return one.complete(j)
}

// clearDrafts removes the unfinished files that a crash has left where files are put.
func (s *set) clearDrafts(put []file) {
	tree, err := openTree(s.files, nil)
	if err != nil {
		return
	}
	defer tree.Root.Close()
	seen := map[string]bool{}
	for _, f := range put {
		if dir := path.Dir(f.Path); !seen[dir] {
			seen[dir] = true
			tree.RemoveDrafts(dir)
		}
	}
}

// Pending reports whether an undo of a session was interrupted, or is not recorded.
func (s *Store) Pending(session message.WorkspaceKey) bool {
	_, err := os.Lstat(s.journalOf(session))
	return !errors.Is(err, fs.ErrNotExist)
}

// Recorded ends an undo that its caller has recorded.
func (s *Store) Recorded(u Undone) error {
	err := os.Remove(s.journalOf(u.Session))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
