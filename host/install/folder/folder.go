// Package folder reads, verifies and fills folders of untrusted files, by the digests of the files.
//
// Start with Open for an existing folder, and with Fill for a new one. Everything goes through an os.Root, so that no name leads outside, and
// only regular files and folders are allowed, because no digest covers the target of a link. The package does not know what the files are
// for, nor which digests are right: a lock or a signature says so.
package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// Bounds limit what a folder or an archive may hold.
type Bounds struct {
	Files int
	Bytes int64 // of all files
}

// Folder is a folder to read. Names of files are slash-separated.
type Folder struct {
	root *os.Root
	max  Bounds
}

// Open opens the folder dir.
func Open(dir string, max Bounds) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{root, max}, nil
}

// Close closes the folder, but not files that were opened in it.
func (d *Folder) Close() { _ = d.root.Close() }

// FS is the whole folder, including everything that Names leaves out or refuses.
func (d *Folder) FS() fs.FS { return d.root.FS() }

// Root is the folder itself.
func (d *Folder) Root() *os.Root { return d.root }

// Inside reports whether name is a clean relative path that stays inside the folder, on this system too.
func Inside(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00") && filepath.IsLocal(filepath.FromSlash(name))
}

// Portable reports whether name is Inside on every system.
func Portable(name string) bool { return Inside(name) && !strings.Contains(name, ":") }

// Names lists the files in order; hidden files and those in hidden folders are left out unless hidden is set.
func (d *Folder) Names(hidden bool) ([]string, error) {
	var out []string
	err := fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case !hidden && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			return notRegular(name)
		case !Inside(name):
			return badName(name)
		case len(out) == d.max.Files:
			return tooMany(d.max)
		}
		out = append(out, name)
		return nil
	})
	slices.Sort(out)
	return out, err
}

func notRegular(name string) error {
	return fmt.Errorf("%.100s is not a regular file: there may be only files and folders", name)
}

func badName(name string) error {
	return fmt.Errorf("%.100q is not a name that a file can have here", name)
}

func tooMany(max Bounds) error { return fmt.Errorf("there are more than %d files", max.Files) }

// Regular returns the mode of a file, which must be a regular one.
func (d *Folder) Regular(name string) (fs.FileMode, error) {
	info, err := d.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, notRegular(name)
	}
	return info.Mode(), nil
}

// Open opens a file, which must be a regular one.
func (d *Folder) Open(name string) (*os.File, error) {
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read reads a file of at most that many bytes.
func (d *Folder) Read(name string, most int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, name, most)
}

func readAll(f *os.File, name string, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return content, err
}

// Each calls visit with every file that is not hidden, in the order of Names.
func (d *Folder) Each(visit func(name string, f *os.File, info fs.FileInfo) error) error {
	names, err := d.Names(false)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := d.Open(name)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = visit(name, f, info)
		}
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Digests returns the digest of each file that is not hidden.
func (d *Folder) Digests() (map[string]string, error) {
	out := map[string]string{}
	err := d.Each(func(name string, f *os.File, _ fs.FileInfo) (err error) {
		out[name], err = digest.Read(f)
		return err
	})
	return out, err
}

// Digest returns the digest of one file.
func (d *Folder) Digest(name string) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digest.Read(f)
}

// Verify compares every file with its digest, and refuses files without one. The file called keep is returned open, so that the caller uses
// the verified content.
func (d *Folder) Verify(want map[string]string, keep string) (*os.File, error) {
	if err := d.exactly(want); err != nil {
		return nil, err
	}
	var kept *os.File
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, err := d.VerifyFile(name, want[name])
		if err != nil {
			if kept != nil {
				_ = kept.Close()
			}
			return nil, err
		}
		if name == keep {
			kept = f
			continue
		}
		_ = f.Close()
	}
	return kept, nil
}

// Contents is Verify for a folder that fits into memory: it returns the bytes that it has compared.
func (d *Folder) Contents(want map[string]string) (map[string][]byte, error) {
	if err := d.exactly(want); err != nil {
		return nil, err
	}
	out, left := make(map[string][]byte, len(want)), d.max.Bytes
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, err := d.openOwn(name)
		if err != nil {
			return nil, err
		}
		out[name], err = readAll(f, name, left)
		_ = f.Close()
		if err == nil {
			err = changed(name, digest.Of(out[name]), want[name])
		}
		if err != nil {
			return nil, err
		}
		left -= int64(len(out[name]))
	}
	return out, nil
}

// exactly refuses files without a digest.
func (d *Folder) exactly(want map[string]string) error {
	have, err := d.Names(true)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(have, func(name string) bool { return want[name] == "" }); i >= 0 {
		return fmt.Errorf("%s is not in the lock", have[i])
	}
	return nil
}

// VerifyFile opens a file and returns it if it has that digest and only its owner can change it.
func (d *Folder) VerifyFile(name, want string) (*os.File, error) {
	f, err := d.openOwn(name)
	if err != nil {
		return nil, err
	}
	got, err := digest.Read(f)
	if err == nil {
		err = changed(name, got, want)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func changed(name, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is not the file that was installed: its digest is %.12s, the lock says %.12s", name, got, want)
	}
	return nil
}

// openOwn opens a file that only its owner can write, who must be root or the user of this process.
func (d *Folder) openOwn(name string) (*os.File, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		switch uid, ok := fileowner.Of(info); {
		case info.Mode().Perm()&0o022 != 0:
			err = fmt.Errorf("%s can be written by others (mode %v)", f.Name(), info.Mode().Perm())
		case ok && uid != 0 && uid != os.Geteuid():
			err = fmt.Errorf("%s belongs to user %d", f.Name(), uid)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Sums is the list of digests in the format of sha256sum, in the order of the names.
func Sums(files map[string]string) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = fmt.Appendf(out, "%s  %s\n", files[name], name)
	}
	return out
}
