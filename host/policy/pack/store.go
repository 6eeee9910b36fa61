package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/flynnhost/flynn/host/install"
	"github.com/flynnhost/flynn/host/install/digest"
)

// Store is the folder of installed policies, and its lock file:
//
//	NAME/DIGEST/  one policy, read-only, never overwritten
//
// A policy in the folder comes into force only if it is in the lock; Install puts it there.
type Store struct {
	versions install.Store
	lock     install.Lock[lockFile]
	trust    Trust
}

// NewStore returns the store in dir with the lock file lock. Either may be missing until something is installed.
func NewStore(dir, lock string, trust Trust) *Store {
	trust.Table = "[policy_trust]"
	return &Store{
		versions: install.Store{Dir: dir, Max: bounds},
		lock:     install.Lock[lockFile]{Path: lock, Guard: filepath.Join(dir, ".flock"), Mode: 0o644, Parse: parseLock},
		trust:    trust,
	}
}

// Trust returns whose policies the store accepts.
func (s *Store) Trust() Trust { return s.trust }

// LockName is the name of the lock file.
const LockName = lockName

// Lock returns the path of the lock file.
func (s *Store) Lock() string { return s.lock.Path }

// List returns the locked policies by name.
func (s *Store) List() ([]Locked, error) {
	l, err := s.lock.Read()
	if err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	return l.Policies, nil
}

// Installed reports whether a policy of that name is in the lock.
func (s *Store) Installed(name string) error {
	_, err := s.find(name)
	return err
}

func (s *Store) find(name string) (Locked, error) {
	l, err := s.lock.Read()
	if err != nil {
		return Locked{}, err
	}
	locked, ok := l.find(name)
	if !ok {
		return Locked{}, notInstalled(name)
	}
	return locked, nil
}

// Find returns the path of a policy's module and its digest, after verifying every file and the signature.
func (s *Store) Find(name string) (path, sum string, err error) {
	l, err := s.Verify(name)
	if err != nil {
		return "", "", err
	}
	return filepath.Join(s.versions.Path(l.folder()), filepath.FromSlash(l.Module)), l.Digest, nil
}

// Verify compares every file of an installed policy with the lock, and its signature with the keys that are trusted now.
func (s *Store) Verify(name string) (Locked, error) {
	locked, err := s.find(name)
	if err != nil {
		return Locked{}, err
	}
	p, err := s.open(locked)
	if err != nil {
		return locked, fmt.Errorf("verify policy %s %s: %w: run flynn policy install again", name, locked.Version, err)
	}
	if locked.FirstParty != "" {
		return locked, nil // the program that comes with it vouches for it
	}
	key, err := s.trust.Check(p.Signer)
	if err == nil && locked.Key != "" && key != locked.Key {
		err = fmt.Errorf("it was signed by %s, which is not trusted any more", locked.Key)
	}
	if err != nil {
		return locked, fmt.Errorf("verify policy %s %s: %w", name, locked.Version, err)
	}
	return locked, nil
}

// open reads a locked policy; each file has to have the digest in the lock.
func (s *Store) open(l Locked) (*Package, error) {
	d, err := s.versions.Open(l.folder())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	files, err := d.Contents(l.Files)
	if err != nil {
		return nil, err
	}
	p, err := newPackage(files)
	if err != nil {
		return nil, err
	}
	if m := p.Manifest; m.Name != l.Name || m.Version != l.Version || m.Digest != l.Digest || m.Build.Output != l.Module {
		return nil, fmt.Errorf("%s says %s %s", manifestName, m.Name, m.Version)
	}
	return p, nil
}

// Contents returns the files of an installed policy, after verifying them.
func (s *Store) Contents(l Locked) (map[string][]byte, error) {
	p, err := s.open(l)
	if err != nil {
		return nil, fmt.Errorf("verify policy %s %s: %w", l.Name, l.Version, err)
	}
	return p.files, nil
}

// Take installs a policy of another host, as Install does. The files must have their digests; open returns the content of one.
func (s *Store) Take(ctx context.Context, name, from string, digests map[string]string, open func(name string) (io.Reader, error)) error {
	if len(digests) > bounds.Files {
		return fmt.Errorf("install policy %s: it has more than %d files", name, bounds.Files)
	}
	files := map[string][]byte{}
	for file, want := range digests {
		content, err := open(file)
		if err == nil {
			files[file], err = io.ReadAll(io.LimitReader(content, maxSize(file)+1))
		}
		if err == nil && digest.Of(files[file]) != want {
			err = errors.New("it does not have its digest, or is too long")
		}
		if err != nil {
			return fmt.Errorf("install policy %s: %s: %w", name, file, err)
		}
	}
	p, err := newPackage(files)
	if err == nil && p.Manifest.Name != name {
		err = fmt.Errorf("%s says %s", manifestName, p.Manifest.Name)
	}
	if err != nil {
		return fmt.Errorf("install policy %s: %w", name, err)
	}
	_, _, err = s.Install(ctx, p, from, true)
	return err
}

// Remove takes a policy out of the lock and deletes its files.
func (s *Store) Remove(name string) error {
	err := s.lock.Change(func(l lockFile) (lockFile, error) {
		if _, ok := l.find(name); !ok {
			return l, notInstalled(name)
		}
		return l.without(name), nil
	})
	if err == nil {
		err = s.versions.Remove(name)
	}
	if err != nil {
		return fmt.Errorf("remove policy: %w", err)
	}
	return nil
}

func notInstalled(name string) error {
	return fmt.Errorf("policy %q is not installed: run flynn policy install", name)
}
