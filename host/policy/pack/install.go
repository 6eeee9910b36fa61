package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// Install puts a package into the store and into the lock, in place of another version, after its module was loaded and its
// cases have passed. From says where it came from. An older version, and one whose signature vouches for less, is refused
// unless downgrade allows it.
func (s *Store) Install(ctx context.Context, p *Package, from string, downgrade bool) (l Locked, known bool, err error) {
	m := p.Manifest
	defer func() {
		if err != nil {
			err = fmt.Errorf("install policy %s %s: %w", m.Name, m.Version, err)
		}
	}()
	key, err := s.trust.Check(p.Signer)
	if err != nil {
		return l, false, err
	}
	l = Locked{
		Name: m.Name, Version: m.Version, Kinds: m.Kinds, Digest: m.Digest, Source: m.Source, Key: key, From: from,
		Module: m.Build.Output, Files: p.digests(),
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return l, false, err
	}
	staged, err := s.stage(p)
	if err != nil {
		return l, false, err
	}
	defer func() { err = errors.Join(err, removeReadOnly(staged)) }()
	if err := prove(ctx, p, filepath.Join(staged, filepath.FromSlash(m.Build.Output))); err != nil {
		return l, false, err
	}
	var replaced Locked
	err = s.change(func(lock lockFile) (lockFile, error) {
		old, ok := lock.find(m.Name)
		if ok {
			if err := succeeds(old, l, downgrade); err != nil {
				return lock, err
			}
			replaced = old
		}
		known, err = s.place(staged, l)
		return lock.with(l), err
	})
	if err == nil && replaced.Name != "" && replaced.folder() != l.folder() {
		err = removeReadOnly(s.folder(replaced))
	}
	return l, known, err
}

// succeeds reports whether one policy may take the place of another.
func succeeds(old, next Locked, downgrade bool) error {
	switch order := semver.Compare("v"+next.Version, "v"+old.Version); {
	case order == 0 && next.folder() != old.folder():
		return errors.New("this version is installed with other contents: raise the version, or run flynn policy remove")
	case downgrade:
		return nil
	case order < 0:
		return fmt.Errorf("version %s is installed, which is newer: say --allow-downgrade if that is meant", old.Version)
	case old.Key != "" && next.Key == "":
		return fmt.Errorf("version %s is installed with a signature of %s, and this one has none that counts: "+
			"say --allow-downgrade if that is meant", old.Version, old.Key)
	}
	return nil
}

// prove loads the module, and asks it the cases that came with it.
func prove(ctx context.Context, p *Package, path string) error {
	l := p.Manifest.Limits
	m, err := policy.Open(ctx, policy.Source{Name: p.Manifest.Name, Path: path, Kinds: p.Manifest.Kinds, Data: p.Manifest.Data, Limits: l.Policy()})
	if err != nil {
		return err
	}
	if err := m.Close(); err != nil {
		return err
	}
	return author.Prove(ctx, path, p.Module, "")
}

// stage writes the package into a new folder of the store.
func (s *Store) stage(p *Package) (dir string, err error) {
	if dir, err = os.MkdirTemp(s.dir, ".staged-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeReadOnly(dir))
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return dir, err
	}
	defer root.Close()
	for _, name := range p.names() {
		if err := writeNew(root, filepath.FromSlash(name), p.files[name]); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

func writeNew(root *os.Root, name string, content []byte) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// place moves a staged policy to where it stays. The very same may be there; anything else in its place is replaced, for the name of the
// folder is that of the contents.
func (s *Store) place(staged string, l Locked) (known bool, err error) {
	folder := s.folder(l)
	if _, err := s.open(l); err == nil {
		return true, nil
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
