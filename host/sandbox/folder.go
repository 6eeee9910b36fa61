package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// folder is a folder of the host that records are made of and turned into. Names in records are hostile: all access goes
// through an os.Root, so that no link leads out of it, and a link is never followed at the end of a name.
type folder struct {
	root *os.Root
	// owner, if not nil, is whose new entries become; for that the host has to be root.
	owner *owner
	// mirror lets an entry replace one of another kind, with everything in it.
	mirror bool
}

// errOtherKind is about a file where a folder should be, or the other way round.
var errOtherKind = errors.New("something else is in the way")

// put makes what the record says. Its folder must be there.
func (f folder) put(r frame.Record, content io.Reader) error {
	name := string(r.Path)
	if err := f.clear(name, r.Type()); err != nil {
		return err
	}
	switch r.Type() {
	case frame.TypeFolder:
		return f.putFolder(name, r)
	case frame.TypeLink:
		return f.putBeside(name, func(draft string) error {
			return errors.Join(f.root.Symlink(string(r.Link), draft), f.own(draft))
		})
	}
	return f.putBeside(name, func(draft string) error { return f.putFile(draft, r, content) })
}

// clear makes way for an entry of a kind.
func (f folder) clear(name string, kind uint32) error {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.IsDir() == (kind == frame.TypeFolder) {
		return err
	}
	if !f.mirror {
		return &fs.PathError{Op: "write", Path: name, Err: errOtherKind}
	}
	return f.root.RemoveAll(name)
}

func (f folder) putFolder(name string, r frame.Record) error {
	if err := f.root.Mkdir(name, 0o700); err == nil {
		err = f.own(name)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Chmod(fs.FileMode(r.Mode&0o777 | 0o700))
}

// putBeside makes an entry under another name and renames it.
func (f folder) putBeside(name string, make func(draft string) error) error {
	draft := path.Join(path.Dir(name), ".flynn-"+rand.Text())
	err := make(draft)
	if err == nil {
		err = f.root.Rename(draft, name)
	}
	if err != nil {
		_ = f.root.Remove(draft)
	}
	return err
}

func (f folder) putFile(draft string, r frame.Record, content io.Reader) error {
	file, err := f.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, content)
	if err == nil && n != r.Size {
		err = io.ErrUnexpectedEOF
	}
	err = errors.Join(err, f.own(draft), file.Chmod(fs.FileMode(r.Mode&0o777)), file.Close())
	if err == nil && r.Mtime != 0 {
		t := time.Unix(0, r.Mtime)
		err = f.root.Chtimes(draft, t, t)
	}
	return err
}

func (f folder) own(name string) error {
	if f.owner == nil {
		return nil
	}
	return f.root.Lchown(name, f.owner.uid, f.owner.gid)
}

// walk calls take for each file, folder and link, parents before children, in the order of their names. Anything else is
// passed over. content opens a regular file.
func (f folder) walk(ctx context.Context, dir string, take func(r frame.Record, content func() (*os.File, error)) error) error {
	d, err := f.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, ok, err := f.describe(path.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := take(r, func() (*os.File, error) { return f.openRegular(string(r.Path)) }); err != nil {
			return err
		}
		if r.Type() == frame.TypeFolder {
			if err := f.walk(ctx, string(r.Path), take); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe makes a record of an entry, unless it is special, gone, or a draft of a mirror.
func (f folder) describe(name string) (r frame.Record, ok bool, err error) {
	if f.mirror && strings.HasPrefix(path.Base(name), ".flynn-") || frame.CheckName(name) != nil {
		return r, false, nil
	}
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	r = frame.Record{Path: []byte(name), Mode: uint32(info.Mode().Perm()), Mtime: info.ModTime().UnixNano()}
	switch {
	case info.IsDir():
		r.Mode |= frame.TypeFolder
	case info.Mode().IsRegular():
		r.Mode |= frame.TypeFile
		r.Size = info.Size()
	case info.Mode().Type() == fs.ModeSymlink:
		r.Mode |= frame.TypeLink
		link, err := f.root.Readlink(name)
		if err != nil || link == "" || len(link) > frame.MaxPath {
			return r, false, err
		}
		r.Link = []byte(link)
	default:
		return r, false, nil
	}
	return r, true, nil
}

// openRegular opens what was a regular file a moment ago.
func (f folder) openRegular(name string) (*os.File, error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(err, &fs.PathError{Op: "read", Path: name, Err: unix.ENXIO})
	}
	return file, nil
}

// send writes an entry with its content. A file that becomes shorter meanwhile is filled with zeros, as the record has
// promised its size.
func (f folder) send(w io.Writer, r frame.Record, content func() (*os.File, error)) error {
	if r.Type() != frame.TypeFile {
		_, err := w.Write(r.Append(nil))
		return err
	}
	file, err := content()
	if err != nil {
		return fmt.Errorf("read %s: %w", r.Path, err)
	}
	defer file.Close()
	if _, err := w.Write(r.Append(nil)); err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(file, r.Size))
	if err == nil && n < r.Size {
		_, err = io.CopyN(w, zeros{}, r.Size-n)
	}
	return err
}

// zeros is an endless file of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
