package fsroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Entry is an entry of a tree as Walk found it.
type Entry struct {
	frame.Record
	Info fs.FileInfo // of the entry itself
	tree Tree
}

// Walk calls take for each file, folder and link, parents before children, sorted by name. Other entries are skipped.
func (t Tree) Walk(ctx context.Context, take func(Entry) error) error { return t.walk(ctx, ".", take) }

func (t Tree) walk(ctx context.Context, dir string, take func(Entry) error) error {
	names, err := t.names(dir)
	if err != nil && t.Lenient && dir != "." {
		t.pass(dir)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, info, ok, err := t.describe(path.Join(dir, name))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := take(Entry{r, info, t}); err != nil {
			return err
		}
		if r.Type() == frame.TypeFolder {
			if err := t.walk(ctx, string(r.Path), take); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t Tree) names(dir string) ([]string, error) {
	d, err := t.Root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// describe returns the record of an entry; ok is false if the entry is special, gone, or an unfinished entry of a mirror.
func (t Tree) describe(name string) (r frame.Record, info fs.FileInfo, ok bool, err error) {
	if t.Mirror && strings.HasPrefix(path.Base(name), draftPrefix) {
		return r, nil, false, nil
	}
	if frame.CheckName(name) != nil {
		t.pass(name)
		return r, nil, false, nil
	}
	info, err = t.Root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil, false, nil
	}
	if err != nil {
		return t.unreadable(name, err)
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
		link, err := t.Root.Readlink(name)
		if err != nil {
			return t.unreadable(name, err)
		}
		if link == "" || len(link) > frame.MaxPath {
			t.pass(name)
			return r, nil, false, nil
		}
		r.Link = []byte(link)
	default:
		t.pass(name)
		return r, nil, false, nil
	}
	return r, info, true, nil
}

// unreadable is the result of describe for an entry that cannot be looked at.
func (t Tree) unreadable(name string, err error) (frame.Record, fs.FileInfo, bool, error) {
	t.pass(name)
	if t.Lenient {
		err = nil
	}
	return frame.Record{}, nil, false, err
}

func (t Tree) pass(name string) {
	if t.Passed != nil {
		t.Passed(name)
	}
}

// Send writes the entry's record, and its content if it is a file. A file that shrinks meanwhile is padded with zeros to the size in the
// record.
func (e Entry) Send(w io.Writer) error {
	if e.Type() != frame.TypeFile {
		_, err := w.Write(e.Append(nil))
		return err
	}
	file, err := e.Open()
	if err != nil {
		return fmt.Errorf("read %s: %w", e.Path, err)
	}
	defer file.Close()
	if _, err := w.Write(e.Append(nil)); err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(file, e.Size))
	if err == nil && n < e.Size {
		_, err = io.CopyN(w, frame.Zeros{}, e.Size-n)
	}
	return err
}

// Open opens the entry for reading if it is still a regular file.
func (e Entry) Open() (*os.File, error) { return e.tree.openRegular(string(e.Path)) }

// openRegular opens a file if it is still a regular one.
func (t Tree) openRegular(name string) (*os.File, error) {
	file, err := t.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(err, &fs.PathError{Op: "read", Path: name, Err: unix.ENXIO})
	}
	return file, nil
}
