package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/install"
	"github.com/flynnhost/flynn/host/install/archive"
	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/install/signing"
)

// Installed is the result of an installation.
type Installed struct {
	Locked
	Manifest Manifest
	// Known is true if the same files were already installed.
	Known bool
}

// Options of an installation.
type Options struct {
	// Source is the origin that the lock records; the folder itself if empty.
	Source string
	// Trust has the keys whose signatures count.
	Trust signing.Trust
	// Name is the only plugin to accept; "" accepts every one.
	Name string
	// Accept refuses a plugin because of its settings; nil accepts every one.
	Accept func(Manifest, *Settings) error
	// FirstParty is that of Locked, and FirstPartyDigest what firstparty.DigestOf must return for the files. Only Provide sets them.
	FirstParty, FirstPartyDigest string
	// Beside leaves the active version as it is and makes the new one Next, for a running host to try.
	Beside bool
}

// Obtain has the options of an installation from an archive or a URL.
type Obtain struct {
	Options
	fetch.Client
}

// InstallFrom installs a plugin from a folder, a .tar.gz or .zip archive, or an http or https URL of such an archive. The content of a URL
// must be authenticated: by #sha256=DIGEST at the end of the URL, or by a signature with a pinned key in the archive.
func (s *Store) InstallFrom(ctx context.Context, from string, o Obtain) (Installed, error) {
	info, err := os.Stat(from)
	switch {
	case fetch.IsURL(from):
		return s.installURL(ctx, from, o)
	case err != nil:
		return Installed{}, fmt.Errorf("install %s: %w", from, err)
	case info.IsDir():
		return s.InstallFolder(from, o.Options)
	}
	from, err = filepath.Abs(from)
	if err != nil {
		return Installed{}, err
	}
	f, err := os.Open(from)
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", from, err)
	}
	defer f.Close()
	o.Source = from
	return s.installArchive(f, o.Options)
}

func (s *Store) installURL(ctx context.Context, from string, o Obtain) (Installed, error) {
	address, err := fetch.Parse(from, "http", "https")
	if err != nil {
		return Installed{}, fmt.Errorf("install %.200s: %w", from, err)
	}
	o.Source = address.String()
	if err := os.MkdirAll(s.versions.Dir, 0o700); err != nil {
		return Installed{}, err
	}
	f, err := os.CreateTemp(s.versions.Dir, ".fetched-")
	if err != nil {
		return Installed{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if o.Trust, err = address.Trust(o.Trust); err == nil {
		err = o.Get(ctx, address, f, limits.Bytes)
	}
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", address, err)
	}
	return s.installArchive(f, o.Options)
}

// installArchive installs a plugin from an archive, in which it is at the top or in the only folder.
func (s *Store) installArchive(from archive.Source, o Options) (Installed, error) {
	out, err := s.install(o, func(v *install.Staged) error {
		err := archive.Read(from, limits, func(f archive.File) error {
			if hidden(f.Name) {
				return nil
			}
			return v.Write(f.Name, f.Program, f.Content)
		})
		if err == nil && v.Files()[ManifestName] == "" {
			err = v.Enter()
		}
		return err
	})
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", o.Source, err)
	}
	return out, nil
}

// Files are those of an installed version, from elsewhere than a folder or an archive.
type Files struct {
	Digests  map[string]string // by name
	Programs []string          // those that are executable
	// Open returns the content of a file. The caller reads it before the next call.
	Open func(name string) (io.Reader, error)
}

// InstallFiles installs a plugin from files, which must have their digests.
func (s *Store) InstallFiles(from Files, o Options) (Installed, error) {
	out, err := s.install(o, func(v *install.Staged) error {
		for _, name := range slices.Sorted(maps.Keys(from.Digests)) {
			content, err := from.Open(name)
			if err == nil {
				err = v.Write(name, slices.Contains(from.Programs, name), content)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if !maps.Equal(v.Files(), from.Digests) {
			return errors.New("its files do not have their digests")
		}
		return nil
	})
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", o.Source, err)
	}
	return out, nil
}

// Each calls visit with every file of an installed version, after verifying it.
func (s *Store) Each(l Locked, visit func(name string, program bool, f *os.File) error) error {
	d, err := s.versions.Open(l.dir())
	if err != nil {
		return fmt.Errorf("open plugin %s: %w", l.Name, err)
	}
	defer d.Close()
	for _, name := range slices.Sorted(maps.Keys(l.Files)) {
		f, err := d.VerifyFile(name, l.Files[name])
		if err != nil {
			return fmt.Errorf("verify plugin %s %s: %w", l.Name, l.Version, err)
		}
		info, err := f.Stat()
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err == nil {
			err = visit(name, folder.Program(info.Mode()), f)
		}
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// hidden reports whether a file is left out, as it would be from a folder.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") }

// Install copies the plugin in dir into the store and makes it the active version in the lock. Earlier versions stay for a rollback.
// Hidden files are left out. A version that is installed with other content is refused: the content of a version never changes.
func (s *Store) Install(dir string) (Installed, error) { return s.InstallFolder(dir, Options{}) }

// InstallFolder is Install with options.
func (s *Store) InstallFolder(dir string, o Options) (Installed, error) {
	out, err := s.installFolder(dir, o)
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", cmp.Or(o.Source, dir), err)
	}
	return out, nil
}

func (s *Store) installFolder(dir string, o Options) (Installed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Installed{}, err
	}
	t, err := openTree(dir, s.kinds)
	if err != nil {
		return Installed{}, err
	}
	defer t.Close()
	m, err := t.manifest()
	if err != nil {
		return Installed{}, err
	}
	if err := t.complete(m); err != nil { // before anything is copied
		return Installed{}, t.unbuilt(dir, m, err)
	}
	o.Source = cmp.Or(o.Source, dir)
	return s.install(o, func(v *install.Staged) error { return v.Copy(t.Folder) })
}

// install has fill write a new version, checks it, and adds it to the store and the lock.
func (s *Store) install(o Options, fill func(*install.Staged) error) (out Installed, err error) {
	v, err := s.versions.Stage()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, v.Discard()) }()
	if err := fill(v); err != nil {
		return out, err
	}
	d, err := v.Open()
	if err != nil {
		return out, err
	}
	defer d.Close()
	t, files := &tree{d, s.kinds}, v.Files()
	m, err := t.acceptable(o)
	if err != nil {
		return out, err
	}
	if got := firstparty.DigestOf(files); o.FirstPartyDigest != "" && got != o.FirstPartyDigest {
		return out, fmt.Errorf("its digest is %.12s, not %.12s", got, o.FirstPartyDigest)
	}
	signer, err := t.signer(files)
	if err != nil {
		return out, err
	}
	if signer, err = o.Trust.Check(signer); err != nil {
		return out, err
	}
	out = Installed{Manifest: m, Locked: Locked{
		Name: m.Name, Version: m.Version, Platforms: slices.Sorted(maps.Keys(m.Exec)), Source: o.Source,
		Installed: time.Now().UTC().Truncate(time.Millisecond), Signer: string(signer), FirstParty: o.FirstParty,
		Network: m.Permissions.Network, Host: m.Permissions.Host, Files: files,
	}}
	return out, s.enter(v, &out, o)
}

// acceptable refuses a plugin that is incomplete, not the wanted one, or whose settings o.Accept refuses.
func (t *tree) acceptable(o Options) (Manifest, error) {
	m, err := t.manifest()
	if err != nil {
		return m, err
	}
	if o.Name != "" && m.Name != o.Name {
		return m, fmt.Errorf("it is the plugin %s, not %s", m.Name, o.Name)
	}
	if err := t.complete(m); err != nil {
		return m, err
	}
	settings, err := t.settings(m, "")
	if err == nil && o.Accept != nil {
		err = o.Accept(m, settings)
	}
	return m, err
}

// enter moves a staged version to its place and adds it to the lock.
func (s *Store) enter(v *install.Staged, out *Installed, o Options) error {
	var gone []Locked
	err := s.lock.Change(func(l lockFile) (lockFile, error) {
		if old, ok := l.release(out.Name, out.Version); ok && maps.Equal(old.Files, out.Files) {
			out.Platform = old.Platform // a lock of format 1 has its own path for it
		} else if ok && old.FirstParty == "" {
			return l, fmt.Errorf("version %s is installed with other content: raise the version, or run flynn plugin remove --force %s", out.Version, out.Name)
		}
		known, err := v.Place(out.dir())
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

// discard deletes versions that are not in the lock any more. On some systems a file that a process still uses cannot be deleted, which
// does no harm.
func (s *Store) discard(gone []Locked) {
	for _, l := range gone {
		_ = s.versions.Remove(l.dir())
	}
}
