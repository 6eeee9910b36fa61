// Package fsroot converts a folder of the host to records, and records to a folder.
//
// The names in records are hostile, and so is what a sandbox has put into a mounted folder: all access goes through an os.Root, so that no
// link leads out of it, and a link at the end of a name is never followed. Package archive checks that records fit together.
//
// Start with Tree: Put creates an entry, Walk visits the existing ones.
package fsroot

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Tree is a folder of the host with everything in it.
type Tree struct {
	Root *os.Root
	// Owner, if not nil, becomes the owner of new entries, which requires root.
	Owner *workspace.Owner
	// Mirror lets an entry replace one of another kind, with everything in it, and hides unfinished entries of Put from Walk.
	Mirror bool
	// Passed, if not nil, is called for each entry that Walk skips.
	Passed func(name string)
	// Lenient makes Walk skip what cannot be read, instead of failing.
	Lenient bool
}

// draftPrefix begins the names of unfinished entries.
const draftPrefix = ".flynn-"

// errOtherKind is the error for a file where a folder should be, or vice versa.
var errOtherKind = errors.New("something else is in the way")

// Put creates the entry that the record describes. Its parent must exist.
func (t Tree) Put(r frame.Record, content io.Reader) error {
	name := string(r.Path)
	if err := t.clear(name, r.Type()); err != nil {
		return err
	}
	switch r.Type() {
	case frame.TypeFolder:
		return t.putFolder(name, r)
	case frame.TypeLink:
		return t.putBeside(name, func(draft string) error {
			return errors.Join(t.Root.Symlink(string(r.Link), draft), t.own(draft))
		})
	}
	return t.putBeside(name, func(draft string) error { return t.putFile(draft, r, content) })
}

// clear removes an existing entry that cannot be replaced by one of the given kind.
func (t Tree) clear(name string, kind uint32) error {
	info, err := t.Root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.IsDir() == (kind == frame.TypeFolder) {
		return err
	}
	if !t.Mirror {
		return &fs.PathError{Op: "write", Path: name, Err: errOtherKind}
	}
	return t.Root.RemoveAll(name)
}

func (t Tree) putFolder(name string, r frame.Record) error {
	if err := t.Root.Mkdir(name, 0o700); err == nil {
		err = t.own(name)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := t.Root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Chmod(fs.FileMode(r.Mode&0o777 | 0o700))
}

// putBeside creates an entry under another name and renames it.
func (t Tree) putBeside(name string, make func(draft string) error) error {
	draft := path.Join(path.Dir(name), draftPrefix+rand.Text())
	err := make(draft)
	if err == nil {
		err = t.Root.Rename(draft, name)
	}
	if err != nil {
		_ = t.Root.Remove(draft)
	}
	return err
}

// RemoveDrafts removes the unfinished entries that a crash has left in a folder.
func (t Tree) RemoveDrafts(dir string) {
	names, _ := t.names(dir)
	for _, name := range names {
		if len(name) == len(draftPrefix)+len(rand.Text()) && strings.HasPrefix(name, draftPrefix) {
			_ = t.Root.Remove(path.Join(dir, name))
		}
	}
}

func (t Tree) putFile(draft string, r frame.Record, content io.Reader) error {
	file, err := t.Root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	n, err := fill(file, content)
	if err == nil && n != r.Size {
		err = io.ErrUnexpectedEOF
	}
	err = errors.Join(err, t.own(draft), file.Chmod(fs.FileMode(r.Mode&0o777)), file.Close())
	if err == nil && r.Mtime != 0 {
		mtime := time.Unix(0, r.Mtime)
		err = t.Root.Chtimes(draft, mtime, mtime)
	}
	return err
}

func (t Tree) own(name string) error {
	if t.Owner == nil {
		return nil
	}
	return t.Root.Lchown(name, t.Owner.UID, t.Owner.GID)
}
