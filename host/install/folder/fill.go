package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// Filling fills an empty folder with files. They are created read-only, and synced to the disk.
type Filling struct {
	root  *os.Root
	max   Bounds
	left  int64
	files map[string]string
}

// Fill starts to fill the empty folder dir.
func Fill(dir string, max Bounds) (*Filling, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Filling{root: root, max: max, left: max.Bytes, files: map[string]string{}}, nil
}

// Write adds a file, executable if it is a program. A name that is taken is refused, and so is a name below that of a file.
func (w *Filling) Write(name string, program bool, content io.Reader) error {
	switch {
	case !Portable(name):
		return badName(name)
	case len(w.files) == w.max.Files:
		return tooMany(w.max)
	case w.files[name] != "":
		return fmt.Errorf("%s is there twice", name)
	}
	local, mode := filepath.FromSlash(name), fs.FileMode(0o400)
	if program {
		mode = 0o500
	}
	if err := w.root.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		return err
	}
	f, err := w.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(content, w.left+1))
	if w.left -= n; err == nil && w.left < 0 {
		err = fmt.Errorf("there are more than %d bytes", w.max.Bytes)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		w.files[name] = hex.EncodeToString(h.Sum(nil))
	}
	return err
}

// Copy adds every file of another folder that is not hidden.
func (w *Filling) Copy(from *Folder) error {
	return from.Each(func(name string, f *os.File, info fs.FileInfo) error { return w.Write(name, Program(info.Mode()), f) })
}

// Program reports whether a file with that mode is executable.
func Program(mode fs.FileMode) bool { return mode&0o100 != 0 }

// Files returns the digest of each file that was written.
func (w *Filling) Files() map[string]string { return maps.Clone(w.files) }

// Close closes the folder.
func (w *Filling) Close() { _ = w.root.Close() }

// Seal syncs dir and the folders below it to the disk, and makes those below read-only. Dir itself still has to be renamed.
func Seal(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if err := durable.SyncDir(name); err != nil || name == dir {
			return err
		}
		return os.Chmod(name, 0o500)
	})
}

// Remove removes a folder with everything in it, including read-only folders. It is no error if there is none.
func Remove(dir string) error {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(name, 0o700)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}
