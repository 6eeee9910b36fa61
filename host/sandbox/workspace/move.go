package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A returning session has a workspace, and the container that waits for it in a pool has another folder mounted. A bind mount follows the
// folder, not its name, so the entries of the workspace are renamed into the container's folder, which then takes the workspace's name.
// Nothing is copied, and links, owners and open files stay as they are.
//
// The temporary name of the emptied folder is the journal. After a crash, putBack undoes or completes a move that has left one, so that
// nothing is ever lost:
//
//	<workspace>   ->  .returning/<workspace>.pool-<instance>.<slot>   the journal begins
//	its entries   ->  .pool-<instance>/<slot>/                        one by one
//	the slot      ->  <workspace>                                     nothing to put back from here on
//	the empty journal is removed

// returningFolder is in the root of the workspaces.
const returningFolder = ".returning"

// maxReturning bounds the entries of a workspace that is moved; renaming more takes longer than creating a container.
const maxReturning = 10_000

// ErrStays means that a workspace was not moved, so that it cannot use a warm container.
var ErrStays = errors.New("workspace stays where it is")

// folders are the system calls of a move. Tests replace them to stop between any two.
type folders interface {
	rename(from, to string) error
	removeEmpty(path string) error
	chmod(path string, mode fs.FileMode) error
}

type hostFolders struct{}

func (hostFolders) rename(from, to string) error              { return os.Rename(from, to) }
func (hostFolders) chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }

func (hostFolders) removeEmpty(path string) error {
	err := syscall.Rmdir(path)
	if err != nil {
		return &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

// move is the move of one workspace, by absolute paths.
type move struct {
	folders
	workspace, returning, slot string
	// undisturbed returns an error if other processes may use the workspace; nil skips the check.
	undisturbed func() error
}

func newMove(f folders, workspace, slot string) move {
	name := filepath.Base(workspace) + filepath.Base(filepath.Dir(slot)) + "." + filepath.Base(slot)
	return move{folders: f, workspace: workspace, returning: filepath.Join(filepath.Dir(workspace), returningFolder, name), slot: slot}
}

// into moves the workspace into the slot's folder, or leaves everything as it was and returns ErrStays. Any other error means that it could
// not be put back, which the next caller that needs the workspace tries again. Nobody else may have either folder open.
func (m move) into() error {
	seized, err := seize(m.workspace)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	defer seized.Close()
	names, mode, err := m.fits()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	if err := os.MkdirAll(filepath.Dir(m.returning), 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	if err := m.rename(m.workspace, m.returning); err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	if err := m.moveEntries(names, mode); err != nil {
		if undone := m.putBack(); undone != nil {
			return fmt.Errorf("%w, and the workspace cannot be put back: %w", err, undone)
		}
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	return m.removeEmpty(m.returning)
}

// fits checks that the slot's folder can replace the workspace, and returns what has to be moved.
func (m move) fits() (names []string, mode fs.FileMode, err error) {
	ours, err1 := os.Lstat(m.workspace)
	theirs, err2 := os.Lstat(m.slot)
	if err := errors.Join(err1, err2); err != nil {
		return nil, 0, err
	}
	if !ours.IsDir() || !sameOwner(ours, theirs) {
		return nil, 0, errors.New("it is not a folder, or belongs to another user")
	}
	if names, err = entries(m.slot, 1); err != nil || len(names) > 0 {
		return nil, 0, errors.Join(err, errors.New("the warm container's folder is not empty"))
	}
	if names, err = entries(m.workspace, maxReturning+1); err == nil && len(names) > maxReturning {
		err = fmt.Errorf("it has more than %d entries", maxReturning)
	}
	return names, ours.Mode(), err
}

// moveEntries does the second and the third step. A process that looks for the workspace from now on finds the journal and waits; one that
// came before is detected.
func (m move) moveEntries(names []string, mode fs.FileMode) error {
	if m.undisturbed != nil {
		if err := m.undisturbed(); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := m.rename(filepath.Join(m.returning, name), filepath.Join(m.slot, name)); err != nil {
			return err
		}
	}
	if left, err := entries(m.returning, 1); err != nil || len(left) > 0 {
		return errors.Join(err, errors.New("somebody else writes to the workspace"))
	}
	if info, err := os.Lstat(m.slot); err != nil || info.Mode() != mode {
		if err := errors.Join(err, m.chmod(m.slot, mode)); err != nil {
			return err
		}
	}
	return m.rename(m.slot, m.workspace)
}

// putBack completes or undoes a move that was interrupted anywhere, including in putBack.
func (m move) putBack() error {
	if err := m.fetch(); err != nil {
		return err
	}
	left, err := entries(m.returning, 1)
	if err != nil {
		return err
	}
	taken := exists(m.workspace)
	if taken && len(left) == 0 { // the move was complete
		return m.removeEmpty(m.returning)
	}
	if taken {
		if err := m.stepAside(); err != nil {
			return err
		}
	}
	return m.rename(m.returning, m.workspace)
}

// fetch moves the entries back from the slot's folder.
func (m move) fetch() error {
	names, err := entries(m.slot, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has become the workspace, or nothing was ever in it
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		back := filepath.Join(m.returning, name)
		if exists(back) {
			return fmt.Errorf("%s exists twice: merge it with %s", back, m.slot)
		}
		if err := m.rename(filepath.Join(m.slot, name), back); err != nil {
			return err
		}
	}
	return nil
}

// stepAside makes room for the workspace if somebody has created a new one meanwhile, which becomes a folder of it.
func (m move) stepAside() error {
	begun, err := entries(m.workspace, 1)
	if err != nil {
		return err
	}
	if len(begun) == 0 {
		return m.removeEmpty(m.workspace)
	}
	return m.rename(m.workspace, filepath.Join(m.returning, "recovered-"+filepath.Base(m.slot)))
}

// entries returns the names in a folder, at most n, or all if n is negative.
func entries(folder string, n int) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(n)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

// exists reports whether a name is taken, even by a dangling link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func sameOwner(a, b fs.FileInfo) bool {
	x, ok1 := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && x.Uid == y.Uid && x.Gid == y.Gid
}
