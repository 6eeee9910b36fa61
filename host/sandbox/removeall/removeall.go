// Package removeall removes a folder with everything in it, whatever a hostile program has created there.
//
// Start with Folder, or with Tree and One for callers with a descriptor of the parent. Unlike os.RemoveAll it holds a bounded number of
// descriptors, however deep the tree is: a program that nests a hundred thousand folders must neither exhaust the host's descriptors nor
// leave something that the host cannot remove. It follows no links, and needs no rights but those of the owner, even on folders for which
// the owner has no permission.
package removeall

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth bounds the nesting that is followed, since each level costs a descriptor. Deeper folders are moved up first.
	maxDepth = 64
	// someNames is how many names of a folder are read at a time.
	someNames = 1000
	// ownerRights are the permissions needed to empty a folder.
	ownerRights = 0o700
)

// Folder removes a folder, file or link by path. It is not an error if it does not exist.
func Folder(name string) error {
	parent, err := os.Open(filepath.Dir(name))
	if err == nil {
		defer parent.Close()
		err = Tree(int(parent.Fd()), filepath.Base(name), nil)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("remove %s: %w", name, err) // not the path where it failed, which may be of any length
}

// Tree removes an entry of the folder with the descriptor at. stop is called repeatedly, and its error ends the removal; it may be nil. If
// a process keeps filling the tree, Tree continues until then.
func Tree(at int, name string, stop func() error) error {
	err := One(at, name)
	if !isFull(err) {
		return err
	}
	top, err := openFolder(at, name)
	if err != nil {
		return err
	}
	defer top.Close()
	e := &eraser{top: int(top.Fd()), stop: stop}
	return e.empty(top, at, name, 0)
}

// eraser is the state of a removal.
type eraser struct {
	top  int
	stop func() error
	done int // entries removed or moved up
}

// empty removes an open folder. Entries that were moved up into it meanwhile take another round.
func (e *eraser) empty(dir *os.File, at int, name string, depth int) error {
	for {
		before := e.done
		if err := e.contents(dir, depth); err != nil {
			return err
		}
		err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		if !isFull(err) || e.done == before {
			return err
		}
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
	}
}

func (e *eraser) contents(dir *os.File, depth int) error {
	for {
		names, _ := dir.Readdirnames(someNames)
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err := e.entry(int(dir.Fd()), name, depth); err != nil && err != unix.ENOENT {
				return err
			}
		}
	}
}

func (e *eraser) entry(at int, name string, depth int) error {
	if e.stop != nil {
		if err := e.stop(); err != nil {
			return err
		}
	}
	err := One(at, name)
	if err == nil {
		e.done++
	}
	if !isFull(err) {
		return err
	}
	dir, err := openFolder(at, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if depth+1 < maxDepth {
		return e.empty(dir, at, name, depth+1)
	}
	if err := unix.Renameat(at, name, e.top, ".flynn-"+rand.Text()); err != nil {
		return err
	}
	e.done++
	return nil
}

// One removes an entry other than a folder that is not empty.
func One(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	if dir := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); dir != unix.ENOTDIR {
		return dir
	}
	return err
}

func isFull(err error) bool { return err == unix.ENOTEMPTY || err == unix.EEXIST }

// openFolder opens a folder, refusing a link, and gives its owner the permissions needed to empty it.
func openFolder(at int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if err == unix.EACCES {
		fd, err = openUnreadable(at, name, flags)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&ownerRights != ownerRights {
		_ = unix.Fchmod(fd, uint32(st.Mode)&0o777|ownerRights) // if this is not permitted, the removal fails later
	}
	return os.NewFile(uintptr(fd), "folder"), nil
}
