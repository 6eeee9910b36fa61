package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/internal/filelock"
)

// maxLock bounds a lock file, in bytes.
const maxLock = 16 << 20

// Lock is a lock file in TOML: what may be used, by digest. Only this file expresses the operator's consent. L is the content of the
// file.
type Lock[L Content] struct {
	Path  string
	Guard string      // the file that a process holds while it changes the lock
	Mode  fs.FileMode // of the file at Path
	// Parse reads the text of the file strictly, because its names become paths.
	Parse func(text []byte) (L, error)
}

// Content is the content of a lock file. Its zero value stands for a missing file.
type Content interface {
	// Encode returns the text of the file.
	Encode() ([]byte, error)
}

// Read reads the lock.
func (f Lock[L]) Read() (l L, err error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxLock+1))
	if err == nil && len(text) > maxLock {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(f.Path), maxLock)
	}
	if err != nil {
		return l, err
	}
	return f.Parse(text)
}

// Change reads the lock, lets edit change it and writes it atomically; only one process at a time does so.
func (f Lock[L]) Change(edit func(L) (L, error)) error {
	if err := os.MkdirAll(filepath.Dir(f.Guard), 0o700); err != nil {
		return err
	}
	release, err := filelock.Wait(f.Guard)
	if err != nil {
		return err
	}
	defer release()
	l, err := f.Read()
	if err != nil {
		return err
	}
	if l, err = edit(l); err != nil {
		return err
	}
	text, err := l.Encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(f.Path, text, f.Mode)
}

// Decode decodes the text of a lock file into a struct, and refuses unknown keys.
func Decode(name string, text []byte, into any) error {
	meta, err := toml.Decode(string(text), into)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var wrong []error
	for _, key := range meta.Undecoded() {
		wrong = append(wrong, fmt.Errorf("%s: unknown key %s", name, key))
	}
	return errors.Join(wrong...)
}

// Encode encodes a lock file, with a comment at its top.
func Encode(comment string, l any) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n", comment)
	err := toml.NewEncoder(&out).Encode(l)
	return out.Bytes(), err
}

// Problems names every error in the files of a version, one of which is the manifest.
func Problems(files map[string]string, manifest string) []error {
	var out []error
	if files[manifest] == "" {
		out = append(out, fmt.Errorf("it has no %s", manifest))
	}
	for name, sum := range files {
		if !folder.Inside(name) {
			out = append(out, fmt.Errorf("%q is not the name of a file inside", name))
		}
		if !digest.Valid(sum) {
			out = append(out, fmt.Errorf("digest of %q is not a SHA-256", name))
		}
	}
	return out
}
