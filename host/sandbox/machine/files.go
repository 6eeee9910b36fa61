package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Limits of file operations.
const (
	maxRead  = 64 << 20 // bytes of one ReadFile
	maxWrite = 64 << 20
	maxList  = 100_000 // entries of one List
	maxLinks = 10      // symbolic links followed to the file that a write replaces
)

// ReadFile implements Machine. An offset past the end returns no data.
func (h *Host) ReadFile(ctx context.Context, path string, offset, max int64) ([]byte, int64, error) {
	data, size, err := h.readFile(ctx, path, offset, max)
	return data, size, named("read", path, err)
}

func (h *Host) readFile(ctx context.Context, path string, offset, max int64) ([]byte, int64, error) {
	if offset < 0 || max < 0 {
		return nil, 0, fmt.Errorf("offset %d and length %d must not be negative", offset, max)
	}
	f, info, err := h.open(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return nil, 0, ErrNotRegular
	}
	data, err := io.ReadAll(io.NewSectionReader(f, offset, min(max, maxRead)))
	return data, info.Size(), err
}

// open opens a file or folder for reading. It does not open a device or a pipe, which could have side effects; O_NONBLOCK protects against
// one that replaces the file meanwhile.
func (h *Host) open(ctx context.Context, path string) (*os.File, fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	name, err := h.inside(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := h.root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, nil, ErrNotRegular
	}
	f, err := h.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// WriteFile implements Machine. A perm of zero keeps the mode of an existing file, and means 0644 for a new one. A symbolic link that stays
// inside is followed: its target is replaced.
func (h *Host) WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	return named("write", path, h.writeFile(ctx, path, data, perm))
}

func (h *Host) writeFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(data) > maxWrite {
		return ErrTooLarge
	}
	name, err := h.inside(path)
	if err != nil {
		return err
	}
	if err := h.config.Quota.Write(int64(len(data))); err != nil {
		return err
	}
	if err := h.makeFolders(filepath.Dir(name)); err != nil {
		return err
	}
	name, mode, err := h.target(name)
	if err != nil {
		return err
	}
	if perm.Perm() != 0 {
		mode = perm.Perm()
	}
	return h.replace(name, data, mode)
}

// target follows links to the file to be replaced and returns its mode, or the mode of a new file. The result is not cleaned: a folder
// before "../.." may be a link as well, so only the kernel knows where that leads.
func (h *Host) target(name string) (string, fs.FileMode, error) {
	for range maxLinks {
		info, err := h.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, 0o644, nil
		case err != nil:
			return "", 0, err
		case info.Mode().IsRegular():
			return name, info.Mode().Perm(), nil
		case info.Mode().Type() != fs.ModeSymlink:
			return "", 0, ErrNotRegular
		}
		to, err := h.root.Readlink(name)
		if err != nil {
			return "", 0, err
		}
		if filepath.IsAbs(to) {
			return "", 0, ErrOutside
		}
		folder, _ := filepath.Split(name)
		name = folder + to
	}
	return "", 0, syscall.ELOOP
}

// List implements Machine; the entries are sorted by name.
func (h *Host) List(ctx context.Context, path string) ([]FileInfo, error) {
	list, err := h.list(ctx, path)
	return list, named("list", path, err)
}

func (h *Host) list(ctx context.Context, path string) ([]FileInfo, error) {
	f, info, err := h.open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !info.IsDir() {
		return nil, errors.New("not a folder")
	}
	entries, err := f.ReadDir(maxList + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > maxList {
		return nil, fmt.Errorf("the folder has more than %d entries: %w", maxList, ErrTooLarge)
	}
	list := make([]FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		list = append(list, FileInfo{Name: e.Name(), Size: info.Size(), Mode: info.Mode(), Mtime: info.ModTime()})
	}
	slices.SortFunc(list, func(a, b FileInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// inside makes a path relative to the workspace, or fails if it points elsewhere. It ignores symbolic links: os.Root follows them only
// while they stay inside.
func (h *Host) inside(path string) (string, error) {
	if strings.Contains(path, "\x00") {
		return "", errors.New("the path contains a zero byte")
	}
	if !filepath.IsAbs(path) {
		return local(path)
	}
	for _, base := range []string{h.workspace, h.resolved} {
		if rel, err := filepath.Rel(base, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", ErrOutside
}

func local(path string) (string, error) {
	if path = filepath.Clean(path); !filepath.IsLocal(path) {
		return "", ErrOutside
	}
	return path, nil
}

// workDir resolves a command's working directory. It guards against mistakes, not against the command, which may go wherever the daemon's
// user may.
func (h *Host) workDir(dir string) (string, error) {
	name, err := h.inside(dir)
	if err != nil {
		return "", named("enter", dir, err)
	}
	info, err := h.root.Stat(name)
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	if err != nil {
		return "", named("enter", dir, err)
	}
	return filepath.Join(h.workspace, name), nil
}

// named adds the operation and path to an error, and converts it to one of this package's errors if it can. It then omits the system's
// text, which would contain the host's paths.
func named(op, path string, err error) error {
	var in *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		err = ErrNotFound
	case errors.As(err, &in) && in.Err.Error() == escapes:
		err = ErrOutside
	case errors.Is(err, syscall.EISDIR):
		err = ErrNotRegular
	case errors.As(err, &in):
		err = in.Err
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// escapes is the text of os.Root's error for a path that leaves it, which package os does not export.
const escapes = "path escapes from parent"
