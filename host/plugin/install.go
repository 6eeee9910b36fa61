package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/flynnhost/flynn/host/durable"
)

// Installed is the answer of Install.
type Installed struct {
	Locked
	Manifest Manifest
	// Known is true when the very same files were installed already.
	Known bool
}

// Install copies the plugin in dir into the store and puts it into the lock, in place of another version.
// Hidden files stay behind. A version that is installed with other contents is refused: what a version holds never changes.
func (s *Store) Install(dir string) (Installed, error) {
	out, err := s.install(dir)
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", dir, err)
	}
	return out, nil
}

func (s *Store) install(dir string) (Installed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Installed{}, err
	}
	source, err := openTree(dir)
	if err != nil {
		return Installed{}, err
	}
	defer source.close()
	m, err := source.manifest()
	if err != nil {
		return Installed{}, err
	}
	if err := source.complete(m); err != nil {
		return Installed{}, err
	}
	staged, files, err := s.stage(source)
	if err != nil {
		return Installed{}, err
	}
	defer removeReadOnly(staged)
	out := Installed{Manifest: m, Locked: Locked{
		Name: m.Name, Version: m.Version, Platform: Platform(), Source: dir, Installed: time.Now().UTC().Truncate(time.Second),
		Network: m.Permissions.Network, Host: m.Permissions.Host, Files: files,
	}}
	err = s.change(func(l lockFile) (lockFile, error) {
		known, err := s.place(staged, out.Locked)
		out.Known = known
		return l.with(out.Locked), err
	})
	return out, err
}

// place moves a staged plugin to where it stays, unless the same is there already.
func (s *Store) place(staged string, l Locked) (known bool, err error) {
	folder := s.folder(l)
	if _, err := os.Lstat(folder); err == nil {
		there, err := openTree(folder)
		if err != nil {
			return false, err
		}
		defer there.close()
		if _, err := there.verify(l.Files, ""); err != nil {
			return false, fmt.Errorf("version %s is installed with other contents (%w): raise the version, or run flynn plugin remove %s",
				l.Version, err, l.Name)
		}
		return true, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return false, err
	}
	if err := os.Rename(staged, folder); err != nil {
		return false, err
	}
	return false, errors.Join(os.Chmod(folder, 0o500), durable.SyncDir(filepath.Dir(folder)))
}

// manifest reads plugin.toml.
func (t *tree) manifest() (Manifest, error) {
	info, err := t.root.Stat(ManifestName)
	if err != nil {
		return Manifest{}, err
	}
	if info.Size() > maxManifest {
		return Manifest{}, fmt.Errorf("%s has %d bytes, at most %d", ManifestName, info.Size(), maxManifest)
	}
	text, err := t.root.ReadFile(ManifestName)
	if err != nil {
		return Manifest{}, err
	}
	return ParseManifest(text)
}

// complete checks that the files which the manifest names for this machine are there.
func (t *tree) complete(m Manifest) error {
	c, err := m.command()
	if err != nil {
		return err
	}
	if program, ok := c.file(); ok {
		mode, err := t.regular(program)
		if err != nil {
			return err
		}
		if mode&0o100 == 0 && runtime.GOOS != "windows" {
			return fmt.Errorf("%s names the program %s, which is not executable: run chmod +x on it", ManifestName, program)
		}
	}
	if m.Config.Schema == "" {
		return nil
	}
	_, err = t.regular(m.Config.Schema)
	return err
}

// regular returns the mode of a file that the manifest names.
func (t *tree) regular(name string) (fs.FileMode, error) {
	info, err := t.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return 0, fmt.Errorf("%s names a file that is missing: %w", ManifestName, err)
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s names %s, which is not a regular file", ManifestName, name)
	}
	return info.Mode(), nil
}

// stage copies every file into a new folder of the store and returns their digests.
func (s *Store) stage(source *tree) (dir string, files map[string]string, err error) {
	dir, err = os.MkdirTemp(s.path("store"), ".staged-")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeReadOnly(dir))
		}
	}()
	names, err := source.files(true)
	if err != nil {
		return dir, nil, err
	}
	target, err := openTree(dir)
	if err != nil {
		return dir, nil, err
	}
	defer target.close()
	files = make(map[string]string, len(names))
	left := int64(maxBytes)
	for _, name := range names {
		if files[name], err = target.copy(source, name, &left); err != nil {
			return dir, nil, err
		}
	}
	return dir, files, target.seal()
}

// copy copies one file, read-only, and returns the digest of what was written.
func (t *tree) copy(from *tree, name string, left *int64) (string, error) {
	in, err := from.root.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", err
	}
	if err := t.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	out, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	sum, err := copyDigest(out, in, left)
	mode := fs.FileMode(0o400)
	if info.Mode()&0o100 != 0 {
		mode = 0o500
	}
	err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
	return sum, err
}

// seal makes every folder read-only.
func (t *tree) seal() error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == "." { // the folder itself still has to be renamed
			return err
		}
		return t.root.Chmod(name, 0o500)
	})
}

// copyDigest copies in to out within what is left of a budget of bytes and returns the digest.
func copyDigest(out io.Writer, in io.Reader, left *int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(in, *left+1))
	*left -= n
	if err == nil && *left < 0 {
		err = fmt.Errorf("the plugin has more than %d bytes", int64(maxBytes))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}
