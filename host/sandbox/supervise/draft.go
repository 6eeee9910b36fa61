//go:build linux

package supervise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// write writes a new file and moves it to the target's place once it is complete, so that no reader sees a partial file.
func (f *files) write(t *transfer, b frame.WriteBody) (_ any, err error) {
	if b.Held {
		return struct{}{}, t.hold(b)
	}
	if err := t.s.disk.admit(false); err != nil {
		return nil, err
	}
	t.s.disk.touch()
	defer t.s.disk.touch()
	var d *draft
	err = f.as(func() (err error) {
		d, err = f.newDraft(string(b.Path))
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.as(d.close)) }()
	n, err := io.CopyBuffer(onlyWriter{d.file}, onlyReader{t}, make([]byte, frame.MaxData))
	if err != nil {
		return nil, err
	}
	if b.Size >= 0 && n != b.Size {
		return nil, fmt.Errorf("received %d bytes of %d", n, b.Size)
	}
	return struct{}{}, f.as(func() error { return d.commit(b.Perm) })
}

// onlyReader hides WriteTo, so that io.CopyBuffer uses its buffer.
type onlyReader struct{ io.Reader }

// draft is a file being written. If the file system supports that, it has no name until it is complete: then nothing is left behind even if
// the container ends.
type draft struct {
	target
	file *os.File
	name string // in target.folder; "" while the draft has none
}

// target is the destination of a file, with a descriptor of its folder.
type target struct {
	folder int
	base   string
	is     bool // whether the file exists
	st     unix.Stat_t
}

// newDraft opens a draft for a path. Its methods run with the workload's identity.
func (f *files) newDraft(name string) (*draft, error) {
	to, err := f.target(name)
	if err != nil {
		return nil, err
	}
	d := &draft{target: to}
	fd, err := unix.Openat(d.folder, ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	switch err {
	case unix.EOPNOTSUPP, unix.EISDIR, unix.ENOENT, unix.EINVAL:
		d.name = draftName()
		fd, err = unix.Openat(d.folder, d.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		unix.Close(d.folder)
		return nil, err
	}
	d.file = os.NewFile(uintptr(fd), "draft")
	return d, nil
}

// draftName returns a name that no other sandbox of the session uses.
func draftName() string { return ".flynn-" + rand.Text() }

// maxLinks bounds the links that lead to a target.
const maxLinks = 10

// target finds the destination of a file. A link within the workspace is followed, because its target is meant; missing folders on the way
// are created, but not behind a link.
func (f *files) target(name string) (target, error) {
	open := f.makeFolders
	name = path.Clean(name)
	for range maxLinks {
		folder, base := path.Split(name)
		if base == "" || base == "." || base == ".." {
			return target{}, fail(frame.NotRegular, "path names no file")
		}
		fd, err := open("./" + folder)
		if err != nil {
			return target{}, err
		}
		t := target{folder: fd, base: base}
		link, err := t.look()
		if err == nil && link == "" {
			return t, nil
		}
		unix.Close(fd)
		if err != nil {
			return target{}, err
		}
		if path.IsAbs(link) {
			return target{}, fail(frame.Outside, "link leads out of the workspace")
		}
		name = folder + link // not cleaned: a folder before ".." may be a link as well
		open = f.openFolder
	}
	return target{}, unix.ELOOP
}

// look checks the existing entry: none, a regular file, or a link, whose target it returns. Anything else is refused, because a rename
// would replace it silently.
func (t *target) look() (link string, err error) {
	err = unix.Fstatat(t.folder, t.base, &t.st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		t.is = false
		return "", nil
	case err != nil:
		return "", err
	}
	t.is = true
	switch t.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "", nil
	case unix.S_IFLNK:
		return readLink(t.folder, t.base)
	}
	return "", fail(frame.NotRegular, "not a regular file")
}

func readLink(folder int, base string) (string, error) {
	var buf [frame.MaxPath]byte
	n, err := unix.Readlinkat(folder, base, buf[:])
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buf[:max(n, 0)]), err
}

// commit moves the draft to the target's place.
func (d *draft) commit(perm uint32) error {
	link, err := d.look()
	if err == nil && link != "" {
		err = fail(frame.NotRegular, "a link has taken the file's place")
	}
	if err != nil {
		return err
	}
	switch {
	case perm&0o777 != 0:
	case d.is:
		perm = d.st.Mode
	default:
		perm = 0o644
	}
	if err := unix.Fchmod(int(d.file.Fd()), perm&0o777); err != nil {
		return err
	}
	if foreign, err := d.foreign(); foreign || err != nil {
		if err != nil {
			return err
		}
		return d.overwrite()
	}
	return d.rename()
}

// foreign reports whether the file belongs to a user to whom the workload cannot give files.
func (d *draft) foreign() (bool, error) {
	var own unix.Stat_t
	err := unix.Fstat(int(d.file.Fd()), &own)
	return d.is && (d.st.Uid != own.Uid || d.st.Gid != own.Gid), err
}

// overwrite changes the content of a file that must keep its owner, if the workload may write to it.
func (d *draft) overwrite() error {
	fd, err := unix.Openat(d.folder, d.base, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "file")
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fail(frame.NotRegular, "not a regular file")
	}
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{io.NewOffsetWriter(file, 0)}, io.NewSectionReader(d.file, 0, 1<<62), make([]byte, frame.MaxData))
	if err != nil {
		return err
	}
	return file.Truncate(n)
}

// rename gives the draft a name, if it has none, and then the target's.
func (d *draft) rename() error {
	if d.name == "" {
		name := draftName()
		if err := unix.Linkat(unix.AT_FDCWD, descriptor(int(d.file.Fd())), d.folder, name, unix.AT_SYMLINK_FOLLOW); err != nil {
			return err
		}
		d.name = name
	}
	if err := unix.Renameat(d.folder, d.name, d.folder, d.base); err != nil {
		return err
	}
	d.name = ""
	return nil
}

func (d *draft) close() error {
	d.file.Close()
	defer unix.Close(d.folder)
	if d.name == "" {
		return nil
	}
	err := unix.Unlinkat(d.folder, d.name, 0)
	for err == unix.EINTR { // which gVisor may return
		err = unix.Unlinkat(d.folder, d.name, 0)
	}
	if err != nil && err != unix.ENOENT { // a command may have removed it
		return fmt.Errorf("remove %s: %w", d.name, err)
	}
	return nil
}

// makeFolders opens a folder of the workspace, creating what is missing.
func (f *files) makeFolders(name string) (int, error) {
	return openMaking(path.Clean("./"+name), f.openFolder)
}

// openFolder opens a folder of the workspace.
func (f *files) openFolder(name string) (int, error) {
	return f.beneath(name, unix.O_PATH|unix.O_DIRECTORY)
}

// openMaking opens a folder by a clean path, creating what is missing.
func openMaking(name string, open func(name string) (int, error)) (int, error) {
	fd, err := open(name)
	if err != unix.ENOENT || name == "." {
		return fd, err
	}
	parent, err := openMaking(path.Dir(name), open)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(name), 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return open(name)
}

// openHeld makes the folder for files that commands must not change writable for us only. As with openScratch, some runtimes give it
// another mode than was requested from the engine.
func openHeld() {
	var fs unix.Statfs_t
	if unix.Statfs(frame.HeldFolder, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		_ = unix.Chmod(frame.HeldFolder, 0o755)
	}
}

// hold writes a file that commands can read, but neither change nor replace: it and the folders above it belong to root.
func (t *transfer) hold(b frame.WriteBody) error {
	name := string(b.Path)
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
		return fail(frame.Outside, "path leaves the folder")
	}
	full := path.Join(frame.HeldFolder, name)
	if err := os.MkdirAll(path.Dir(full), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o444)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := io.CopyBuffer(onlyWriter{file}, onlyReader{t}, make([]byte, frame.MaxData))
	if err == nil && b.Size >= 0 && n != b.Size {
		err = fmt.Errorf("received %d bytes of %d", n, b.Size)
	}
	return err
}
