package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Bounds on one plugin's folder.
const (
	maxFiles = 10_000
	maxBytes = 1 << 30
)

// tree is a plugin's folder, read through an os.Root so that no name in it leads outside.
type tree struct{ root *os.Root }

func openTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root}, nil
}

func (t *tree) close() { _ = t.root.Close() }

// files lists the regular files. Hidden names are left out when skipHidden is set; anything that is neither a regular file
// nor a folder is refused, links above all: what they lead to is not covered by any digest.
func (t *tree) files(skipHidden bool) ([]string, error) {
	var out []string
	err := fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case skipHidden && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file: a plugin holds only files and folders", name)
		case !localFile(name):
			return fmt.Errorf("%q is not a name that a plugin's file can have", name)
		case len(out) == maxFiles:
			return fmt.Errorf("there are more than %d files", maxFiles)
		}
		out = append(out, name)
		return nil
	})
	slices.Sort(out)
	return out, err
}

// digest reads an open file to its end.
func digest(f io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digest is that of one file.
func (t *tree) digest(name string) (string, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digest(f)
}

// verify compares every file with its digest and refuses files without one. The file called keep is returned open, as it was
// read: the verified content is what runs.
func (t *tree) verify(want map[string]string, keep string) (*os.File, error) {
	have, err := t.files(false)
	if err != nil {
		return nil, err
	}
	if extra := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return want[name] != "" }); len(extra) > 0 {
		return nil, fmt.Errorf("%s is not in the lock", extra[0])
	}
	var kept *os.File
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, err := t.verifyFile(name, want[name])
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

// verifyFile opens one file and returns it if it is what it should be and only its owner can change it.
func (t *tree) verifyFile(name, want string) (*os.File, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	err = trusted(f)
	if err == nil {
		var got string
		if got, err = digest(f); err == nil && got != want {
			err = fmt.Errorf("%s is not the file that was installed: its digest is %.12s, the lock says %.12s", name, got, want)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// trusted refuses files that somebody other than the owner may write, or that belong to another user than root or ours.
func trusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %v)", f.Name(), info.Mode().Perm())
	}
	if uid, ok := owner(info); ok && uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", f.Name(), uid)
	}
	return nil
}
