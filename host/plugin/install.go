package plugin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// Installed is the answer of Install.
type Installed struct {
	Locked
	Manifest Manifest
	// Known is true when the very same files were installed already.
	Known bool
}

// Options of an installation.
type Options struct {
	// Source is what the lock says it came from; the folder itself if empty.
	Source string
	// Trust says whose signatures count.
	Trust signing.Trust
	// Name refuses any other plugin; "" takes every one.
	Name string
	// Accept refuses a plugin for what it says of its settings; nil takes every one.
	Accept func(Manifest, *Settings) error
	// Beside leaves the active version as it is and makes the new one Next, which a running host is to try.
	Beside bool
}

// Install copies the plugin in dir into the store and puts it into the lock as the active version. Earlier ones stay for a rollback.
// Hidden files stay behind. A version that is installed with other contents is refused: what a version holds never changes.
func (s *Store) Install(dir string) (Installed, error) { return s.InstallFolder(dir, Options{}) }

// InstallFolder is Install with options.
func (s *Store) InstallFolder(dir string, o Options) (Installed, error) {
	out, err := s.install(dir, o)
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", cmp.Or(o.Source, dir), err)
	}
	return out, nil
}

func (s *Store) install(dir string, o Options) (Installed, error) {
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
	if o.Name != "" && m.Name != o.Name {
		return Installed{}, fmt.Errorf("it is the plugin %s, not %s", m.Name, o.Name)
	}
	if err := source.complete(m); err != nil {
		return Installed{}, source.unbuilt(dir, m, err)
	}
	if err := source.accepted(m, o); err != nil {
		return Installed{}, err
	}
	staged, files, err := s.stage(source)
	if err != nil {
		return Installed{}, err
	}
	defer removeReadOnly(staged)
	signer, err := vouched(staged, files, o.Trust)
	if err != nil {
		return Installed{}, err
	}
	out := Installed{Manifest: m, Locked: Locked{
		Name: m.Name, Version: m.Version, Platforms: slices.Sorted(maps.Keys(m.Exec)), Source: cmp.Or(o.Source, dir),
		Installed: time.Now().UTC().Truncate(time.Second), Signer: string(signer),
		Network: m.Permissions.Network, Host: m.Permissions.Host, Files: files,
	}}
	return out, s.enter(staged, &out, o)
}

// enter puts a staged version into its place and into the lock.
func (s *Store) enter(staged string, out *Installed, o Options) error {
	var gone []Locked
	err := s.change(func(l lockFile) (lockFile, error) {
		if old, ok := l.release(out.Name, out.Version); ok && maps.Equal(old.Files, out.Files) {
			out.Platform = old.Platform // it lies where a lock of format 1 had it put
		} else if ok {
			return l, fmt.Errorf("version %s is installed with other contents: raise the version, or run flynn plugin remove --force %s", out.Version, out.Name)
		}
		known, err := s.place(staged, out.Locked)
		if err != nil {
			return l, err
		}
		out.Known = known
		c, exists := l.choice(out.Name)
		c.Name = out.Name
		switch {
		case !exists || !o.Beside:
			c = c.activate(out.Version)
		case c.Active != out.Version:
			c.Next = out.Version
		}
		l = l.withRelease(out.Locked).with(c)
		l, gone = l.prune(out.Name)
		return l, nil
	})
	if err == nil {
		s.discard(gone)
	}
	return err
}

// discard deletes versions that the lock does not name any more. What a process still reads of them fails to be deleted on some
// systems, which harms nobody.
func (s *Store) discard(gone []Locked) {
	for _, l := range gone {
		_ = removeReadOnly(s.folder(l))
	}
}

// place moves a staged plugin to where it stays, unless the same is there already. What is there and is not in the lock, or not as
// the lock says, was never to run: it makes room.
func (s *Store) place(staged string, l Locked) (known bool, err error) {
	folder := s.folder(l)
	if there, err := openTree(folder); err == nil {
		_, err := there.verify(l.Files, "")
		there.close()
		if err == nil {
			return true, nil
		}
	}
	if err := removeReadOnly(folder); err != nil {
		return false, err
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

// accepted refuses a plugin whose schema of settings is none, or that who installs it does not want.
func (t *tree) accepted(m Manifest, o Options) error {
	s, err := t.settings(m, "")
	if err == nil && o.Accept != nil {
		err = o.Accept(m, s)
	}
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
