//go:build linux

package supervise

import (
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// write makes a new file beside the target and renames it over, so that no reader ever sees half.
func (f *files) write(t *transfer, body []byte) (any, error) {
	var b frame.WriteBody
	if err := frame.Decode(body, &b); err != nil {
		return nil, err
	}
	folder, base := path.Split(path.Clean(string(b.Path)))
	if base == "." || base == ".." || base == "/" || base == "" {
		return nil, fail(frame.NotRegular, "path names no file")
	}
	draft, err := f.newDraft(folder, base)
	if err != nil {
		return nil, err
	}
	defer draft.close()
	n, err := t.receive(draft.file)
	if err != nil {
		return nil, err
	}
	if n != b.Size {
		return nil, fmt.Errorf("received %d bytes of %d", n, b.Size)
	}
	return struct{}{}, f.as(func() error { return draft.commit(b.Perm) })
}

// draft is a file being written.
type draft struct {
	f      *files
	folder int
	file   *os.File
	name   string // until committed
	base   string
}

func (f *files) newDraft(folder, base string) (*draft, error) {
	d := &draft{f: f, base: base, name: ".flynn-" + strconv.FormatUint(f.temp.Add(1), 36) + ".tmp"}
	err := f.as(func() error {
		var err error
		if d.folder, err = f.makeFolders(folder); err != nil {
			return err
		}
		if err := d.checkTarget(); err != nil {
			unix.Close(d.folder)
			return err
		}
		_ = unix.Unlinkat(d.folder, d.name, 0) // left by an earlier container of the session
		fd, err := unix.Openat(d.folder, d.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			unix.Close(d.folder)
			return err
		}
		d.file = os.NewFile(uintptr(fd), "draft")
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// checkTarget refuses to replace what is no regular file: a rename would do so silently.
func (d *draft) checkTarget() error {
	var st unix.Stat_t
	err := unix.Fstatat(d.folder, d.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail(frame.NotRegular, "not a regular file")
	}
	return err
}

func (d *draft) commit(perm uint32) error {
	if err := d.checkTarget(); err != nil {
		return err
	}
	if err := unix.Fchmod(int(d.file.Fd()), perm&0o777); err != nil {
		return err
	}
	if err := unix.Renameat(d.folder, d.name, d.folder, d.base); err != nil {
		return err
	}
	d.name = ""
	return nil
}

func (d *draft) close() {
	d.file.Close()
	if d.name != "" {
		_ = d.f.as(func() error { return unix.Unlinkat(d.folder, d.name, 0) })
	}
	unix.Close(d.folder)
}

// makeFolders opens a folder of the workspace, creating what is missing of it.
func (f *files) makeFolders(name string) (int, error) {
	name = path.Clean("./" + name)
	fd, err := f.beneath(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != unix.ENOENT {
		return fd, err
	}
	parent, err := f.makeFolders(path.Dir(name))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(name), 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return f.beneath(name, unix.O_PATH|unix.O_DIRECTORY)
}
