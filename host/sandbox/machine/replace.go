package machine

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replace writes a new file next to the target and renames it, so that a reader sees the old or the new content, and a crash leaves one of
// them. If that would change the file's owner, the file is overwritten instead. The folder is opened once, so that a command that moves it
// meanwhile does not separate the steps.
func (h *Host) replace(name string, data []byte, mode fs.FileMode) error {
	folder, base := filepath.Split(name)
	dir, err := h.root.OpenRoot("./" + folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	beside := ".flynn-" + rand.Text()
	f, err := dir.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	owned := keepOwner(f, dir, base)
	_, err = f.Write(data)
	// Set explicitly, because the umask must not decide the mode, and a change of owner clears bits of it.
	err = errors.Join(owned, err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = dir.Rename(beside, base)
	}
	if err != nil {
		_ = dir.Remove(beside)
	}
	if errors.Is(owned, fs.ErrPermission) {
		return overwrite(dir, base, data)
	}
	return err
}

// keepOwner gives a new file the owner and group of the one that it replaces.
func keepOwner(f *os.File, dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return inherit(dir, ".", f.Chown)
	}
	if err != nil {
		return err
	}
	want, is := info.Sys().(*syscall.Stat_t)
	if info, err = f.Stat(); err != nil {
		return err
	}
	have, too := info.Sys().(*syscall.Stat_t)
	if !is || !too || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// inherit gives a new entry its folder's owner if the daemon is root: a sandbox may share the workspace, and its commands never run as
// root.
func inherit(root *os.Root, folder string, chown func(uid, gid int) error) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := root.Stat(folder)
	if err != nil {
		return err
	}
	if owner, is := info.Sys().(*syscall.Stat_t); is {
		return chown(int(owner.Uid), int(owner.Gid))
	}
	return nil
}

// overwrite changes the content of a file in place.
func overwrite(dir *os.Root, name string, data []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// makeFolders creates the missing part of a folder's path.
func (h *Host) makeFolders(name string) error {
	_, err := h.root.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) || name == "." {
		return err
	}
	parent := filepath.Dir(name)
	if err := h.makeFolders(parent); err != nil {
		return err
	}
	if err := h.root.Mkdir(name, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return inherit(h.root, parent, func(uid, gid int) error { return h.root.Lchown(name, uid, gid) })
}
