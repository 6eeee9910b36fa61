package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// writer writes the entries of an archive and lists them.
type writer struct {
	ctx     context.Context // of the one call of Make
	tar     *tar.Writer
	temp    string
	entries []entry
	left    []Left
	files   int
}

func (w *writer) leave(path, why string) { w.left = append(w.left, Left{path, why}) }

func (w *writer) json(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return w.bytes(name, text, 0o600)
}

func (w *writer) bytes(name string, text []byte, mode int64) error {
	return w.stream(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: mode}, bytes.NewReader(text), name)
}

// stream writes a file.
func (w *writer) stream(h *tar.Header, r io.Reader, path string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.tar.WriteHeader(h); err != nil {
		return err
	}
	sum, from := sha256.New(), &limited{r: r, left: h.Size}
	if _, err := io.Copy(io.MultiWriter(w.tar, sum), from); err != nil {
		return err
	}
	if from.short {
		w.leave(path, passed)
	}
	w.entries = append(w.entries, entry{Name: listed(h.Name), Size: h.Size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	w.files++
	return nil
}

// folder writes what is in a folder, as it is there: links are not followed, and what is neither file, folder nor link is left out. Agents may
// change what is in it meanwhile. path is how people call it, and skipped says what is no part of a backup.
func (w *writer) folder(root *os.Root, name, path string, skipped func(string) bool) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	list, err := dir.ReadDir(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		w.leave(path, err.Error())
		return nil
	}
	for _, e := range list {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if skipped != nil && skipped(e.Name()) {
			continue
		}
		if of, ok := logOf(e.Name()); ok && w.isDatabase(root, of, name) {
			continue
		}
		if err := w.one(root, e.Name(), name+"/"+e.Name(), filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// logOf returns the database whose log a file is by its name. The copy of the database has what is in the log.
func logOf(name string) (database string, ok bool) {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if database, ok = strings.CutSuffix(name, suffix); ok {
			return database, true
		}
	}
	return "", false
}

// one writes an entry of a folder.
func (w *writer) one(root *os.Root, base, name, path string) error {
	info, err := root.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		w.leave(path, err.Error())
		return nil
	case info.IsDir():
		return w.inner(root, base, name, path, info)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := root.Readlink(base)
		if err != nil {
			w.leave(path, err.Error())
			return nil
		}
		return w.plain(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, ModTime: info.ModTime()})
	case !info.Mode().IsRegular():
		return nil // a socket or a pipe has nothing to keep
	case w.isDatabase(root, base, filepath.ToSlash(filepath.Dir(name))):
		return w.database(path, name)
	}
	return w.file(root, base, name, path)
}

// isDatabase reports whether a file is a SQLite database of a plugin, of which a plain copy could be torn. Folders of agents have none: what
// agents write is not opened.
func (w *writer) isDatabase(root *os.Root, base, folder string) bool {
	if !strings.HasPrefix(folder+"/", storeFolder+"/state/") {
		return false
	}
	f, err := root.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 16)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "SQLite format 3\x00"
}

// inner writes a folder in a folder.
func (w *writer) inner(root *os.Root, base, name, path string, was fs.FileInfo) error {
	sub, err := root.OpenRoot(base)
	if err != nil {
		w.leave(path, err.Error())
		return nil
	}
	defer sub.Close()
	if is, err := sub.Stat("."); err != nil || !os.SameFile(was, is) { // a link has taken its place
		w.leave(path, passed)
		return nil
	}
	h := headerOf(was, tar.TypeDir, name+"/")
	if err := w.plain(h); err != nil {
		return err
	}
	return w.folder(sub, name, path, nil)
}

// file writes a regular file.
func (w *writer) file(root *os.Root, base, name, path string) error {
	f, err := root.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that takes its place must not block
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.leave(path, err.Error())
		}
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// A link that takes the place of the file leads elsewhere, such as from an agent's folder to the secrets.
	if is, err := root.Lstat(base); err != nil || !is.Mode().IsRegular() || !os.SameFile(is, info) {
		w.leave(path, passed)
		return nil
	}
	h := headerOf(info, tar.TypeReg, name)
	h.Size = info.Size()
	return w.stream(h, f, path)
}

// plain writes an entry without contents.
func (w *writer) plain(h *tar.Header) error {
	w.entries = append(w.entries, entry{Name: listed(h.Name)})
	return w.tar.WriteHeader(h)
}

func headerOf(info fs.FileInfo, kind byte, name string) *tar.Header {
	h := &tar.Header{Format: tar.FormatPAX, Typeflag: kind, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	if uid, ok := fileowner.Of(info); ok {
		h.Uid = uid
	}
	return h
}

// passed says that a file is not as it was at one moment.
const passed = "it changed while it was read"

// limited reads what a file had when its header was written: what was added since is left, and what is gone reads as zeros.
type limited struct {
	r     io.Reader
	left  int64
	short bool
}

func (l *limited) Read(p []byte) (n int, err error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	if !l.short {
		n, err = l.r.Read(p)
		if err != nil && err != io.EOF {
			return n, err
		}
		l.short = err == io.EOF && int64(n) < l.left
	}
	if l.short && n == 0 {
		clear(p)
		n = len(p)
	}
	l.left -= int64(n)
	return n, nil
}
