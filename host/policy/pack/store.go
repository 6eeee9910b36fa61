package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// Store is the folder of installed policies, and the lock that speaks for it:
//
//	NAME/DIGEST/  one policy, read-only, never overwritten
//
// Nothing comes into force merely because it lies there: Install puts it into the lock.
type Store struct {
	dir   string
	lock  string
	trust Trust
}

// NewStore is the store in dir with the lock file lock. Either may be missing until something is installed.
func NewStore(dir, lock string, trust Trust) *Store {
	trust.Table = "[policy_trust]"
	return &Store{dir, lock, trust}
}

// Trust says whose policies the store takes.
func (s *Store) Trust() Trust { return s.trust }

// LockName is the name of the lock file.
const LockName = lockName

// Lock is the path of the lock file.
func (s *Store) Lock() string { return s.lock }

func (s *Store) readLock() (lockFile, error) {
	f, err := os.Open(s.lock)
	if errors.Is(err, fs.ErrNotExist) {
		return lockFile{Format: 1}, nil
	}
	if err != nil {
		return lockFile{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err != nil {
		return lockFile{}, err
	}
	return parseLock(text)
}

// change lets edit change the lock; one process at a time.
func (s *Store) change(edit func(lockFile) (lockFile, error)) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	release, err := holdLock(filepath.Join(s.dir, ".flock"))
	if err != nil {
		return err
	}
	defer release()
	l, err := s.readLock()
	if err != nil {
		return err
	}
	if l, err = edit(l); err != nil {
		return err
	}
	text, err := l.encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(s.lock, text, 0o644)
}

// List returns the locked policies by name.
func (s *Store) List() ([]Locked, error) {
	l, err := s.readLock()
	if err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	return l.Policies, nil
}

// Installed reports whether a policy of that name is in the lock.
func (s *Store) Installed(name string) error {
	l, err := s.readLock()
	if err != nil {
		return err
	}
	if _, ok := l.find(name); !ok {
		return notInstalled(name)
	}
	return nil
}

// Find returns the module's file and digest of a policy, after a look at every file of it and at its signature.
func (s *Store) Find(name string) (path, digest string, err error) {
	l, err := s.Verify(name)
	if err != nil {
		return "", "", err
	}
	return filepath.Join(s.folder(l), filepath.FromSlash(l.Module)), l.Digest, nil
}

// Verify compares every file of an installed policy with the lock, and its signature with the keys that are trusted now.
func (s *Store) Verify(name string) (Locked, error) {
	l, err := s.readLock()
	if err != nil {
		return Locked{}, err
	}
	locked, ok := l.find(name)
	if !ok {
		return Locked{}, notInstalled(name)
	}
	p, err := s.open(locked)
	if err != nil {
		return locked, fmt.Errorf("verify policy %s %s: %w: run flynn policy install again", name, locked.Version, err)
	}
	key, err := s.trust.Check(p.Signer)
	if err == nil && locked.Key != "" && key != locked.Key {
		err = fmt.Errorf("it was signed by %s, whose signature does not count any more", locked.Key)
	}
	if err != nil {
		return locked, fmt.Errorf("verify policy %s %s: %w", name, locked.Version, err)
	}
	return locked, nil
}

// open reads a locked policy; each file has to be what the lock says.
func (s *Store) open(l Locked) (*Package, error) {
	root, err := os.OpenRoot(s.folder(l))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files := map[string][]byte{}
	for name, want := range l.Files {
		content, err := readFile(root, name)
		if err != nil {
			return nil, err
		}
		if digestOf(content) != want {
			return nil, fmt.Errorf("%s was changed on the disk", name)
		}
		files[name] = content
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

// Remove takes a policy out of the lock and deletes its files.
func (s *Store) Remove(name string) error {
	err := s.change(func(l lockFile) (lockFile, error) {
		if _, ok := l.find(name); !ok {
			return l, notInstalled(name)
		}
		return l.without(name), nil
	})
	if err == nil {
		err = removeReadOnly(filepath.Join(s.dir, name))
	}
	if err != nil {
		return fmt.Errorf("remove policy: %w", err)
	}
	return nil
}

func (s *Store) folder(l Locked) string { return filepath.Join(s.dir, filepath.FromSlash(l.folder())) }

func notInstalled(name string) error {
	return fmt.Errorf("policy %q is not installed: run flynn policy install", name)
}

// removeReadOnly removes a tree whose folders cannot be written.
func removeReadOnly(dir string) error {
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
