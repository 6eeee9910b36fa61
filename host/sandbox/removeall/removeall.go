// Package removeall removes a folder with everything in it, whatever a stranger has put there.
//
// Start with Folder, or with Tree and One for callers with a handle on the parent. Unlike os.RemoveAll it holds a bounded number of
// descriptors, however deep the tree is: a program that makes a hundred thousand folders, each in the one before, must
// take them neither from the host nor leave behind what the host cannot remove. It follows no link, and it needs no right
// but that of the owner, also where the owner has no right left on a folder.
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
	// maxDepth is how deep folders are gone into, each of which costs a descriptor. One that lies deeper is moved up first.
	maxDepth = 64
	// someNames is how many names of a folder are read at a time.
	someNames = 1000
	// ownerRights are what emptying a folder takes.
	ownerRights = 0o700
)

// Folder removes a folder, file or link by its path. It is no failure if there is none.
func Folder(name string) error {
	parent, err := os.Open(filepath.Dir(name))
	if err == nil {
		defer parent.Close()
		err = Tree(int(parent.Fd()), filepath.Base(name), nil)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("remove %s: %w", name, err) // and not the path where it stopped, which has no bound
}

// Tree removes an entry of the folder at, which is a handle. stop is asked again and again, and ends it by an error; it may
// be nil. A process that fills the tree at the same time may make this go on until then.
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

// eraser is at work in a tree.
type eraser struct {
	top  int
	stop func() error
	done int // entries removed, or moved up
}

// empty removes a folder that is open. What was moved up into it meanwhile takes another round.
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

// One removes anything but a folder that is not empty.
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

// openFolder opens a folder that must be none but itself, and gives its owner the rights to empty it.
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
		_ = unix.Fchmod(fd, uint32(st.Mode)&0o777|ownerRights) // a caller without the right finds out when it removes
	}
	return os.NewFile(uintptr(fd), "folder"), nil
}

// openUnreadable opens a folder whose owner may not read it. A chmod by name would follow the link that may have taken its place.
func openUnreadable(at int, name string, flags int) (int, error) {
	handle, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(handle)
	self := fmt.Sprintf("/proc/self/fd/%d", handle)
	if err := unix.Chmod(self, ownerRights); err != nil {
		return -1, err
	}
	return unix.Open(self, flags&^unix.O_NOFOLLOW, 0)
}
