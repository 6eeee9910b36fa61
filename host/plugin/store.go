package plugin

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install"
	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/install/folder"
)

const lockName = "plugins.lock"

// limits bound the files of one version of a plugin, and of its archive.
var limits = folder.Bounds{Files: 10_000, Bytes: 1 << 30}

// Store is the folder of installed plugins:
//
//	plugins.lock                  the plugins that may run, by digest
//	store/NAME/VERSION/any/        one version for all its platforms, read-only, never overwritten
//	state/INSTANCE/               state of an instance, which the store does not touch
//
// Nothing runs only because it is in the folder: Install adds it to the lock.
type Store struct {
	dir      string
	kinds    Kinds
	others   []string // plugins that run without being installed
	shelf    func() firstparty.Shelf
	versions install.Store
	lock     install.Lock[lockFile]
}

// OpenStore opens the folder, which is created when something is installed.
func OpenStore(dir string) (*Store, error) {
	if dir == "" {
		return nil, errors.New("open the plugin store: no folder given")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the plugin store: %w", err)
	}
	s := &Store{
		dir: dir, kinds: AllKinds(), shelf: sync.OnceValue(firstparty.Find),
		versions: install.Store{Dir: filepath.Join(dir, "store"), Max: limits},
		lock: install.Lock[lockFile]{
			Path: filepath.Join(dir, lockName), Guard: filepath.Join(dir, ".flock"), Mode: 0o600, Parse: parseLock,
		},
	}
	return s, nil
}

// List returns the active version of each plugin, by name.
func (s *Store) List() ([]Locked, error) {
	l, err := s.lock.Read()
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	var out []Locked
	for _, c := range l.Plugins {
		if r, ok := l.find(c.Name); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// Verify compares every file of an installed plugin with the lock.
func (s *Store) Verify(name string) (Locked, error) {
	p, err := s.load(name)
	if err != nil {
		return Locked{}, err
	}
	p.close()
	return p.locked, nil
}

// Manifest reads the manifest of the version that would start now, without verifying anything.
func (s *Store) Manifest(name string) (Manifest, error) {
	if s.Awaits(name) {
		return s.shelvedManifest(name)
	}
	_, t, err := s.active(name)
	if err != nil {
		return Manifest{}, err
	}
	defer t.Close()
	return t.manifest()
}

// VerifiedManifest reads the manifest of the active version, and verifies that file.
func (s *Store) VerifiedManifest(name string) (Manifest, error) {
	if s.Awaits(name) {
		return s.shelvedManifest(name)
	}
	locked, t, err := s.active(name)
	if err != nil {
		return Manifest{}, err
	}
	defer t.Close()
	m, err := t.lockedManifest(locked)
	if err != nil {
		return m, fmt.Errorf("verify plugin %s: %w", name, err)
	}
	return m, nil
}

// active opens the folder of a plugin's active version without verifying it.
func (s *Store) active(name string) (Locked, *tree, error) {
	l, err := s.lock.Read()
	if err != nil {
		return Locked{}, nil, err
	}
	locked, ok := l.find(name)
	if !ok {
		return Locked{}, nil, s.notInstalled(l, name)
	}
	d, err := s.versions.Open(locked.dir())
	if err != nil {
		return Locked{}, nil, fmt.Errorf("open plugin %s: %w", name, err)
	}
	return locked, &tree{d, s.kinds}, nil
}

// Remove removes a plugin from the lock and deletes its files. The state of its instances stays.
func (s *Store) Remove(name string) error {
	err := s.lock.Change(func(l lockFile) (lockFile, error) {
		if _, ok := l.choice(name); !ok {
			return l, s.notInstalled(l, name)
		}
		return l.without(name), nil
	})
	if err != nil {
		return fmt.Errorf("remove plugin: %w", err)
	}
	if err := s.versions.Remove(name); err != nil {
		return fmt.Errorf("remove plugin %s: %w", name, err)
	}
	return nil
}

// Shipped are the plugins in Flynn's own repository. Which of them a program has with it, firstparty.Shelf says.
func Shipped() []string {
	return []string{"discord", "email", "irc", "kubernetes", "matrix", "mcp", "slack", "telegram", "webhook", "whatsapp"}
}

// notInstalled is the error for a plugin that the lock does not name.
func (s *Store) notInstalled(l lockFile, name string, others ...string) error {
	if err := s.shelf().Err(); err != nil {
		return err
	}
	own := s.shelf().Names(firstparty.Plugins)
	if slices.Contains(own, name) {
		return fmt.Errorf("plugin %q comes with flynn and is not in the lock yet: flynn puts it there when the configuration first uses it", name)
	}
	var here []string
	for _, c := range l.Plugins {
		if c.Name != name {
			here = append(here, c.Name)
		}
	}
	return missingFrom(slices.Concat(here, own, others, s.others), name)
}

// missingFrom is the error for a plugin that is none of those that can run. It suggests a similar name among them or among Flynn's own
// plugins. It is nil if the plugin is there.
func missingFrom(here []string, name string) error {
	problem := fmt.Sprintf("plugin %q is not installed", name)
	if slices.Contains(here, name) {
		return nil
	}
	if near := config.Nearest(name, here); near != "" {
		return fmt.Errorf("%s: did you mean %q?", problem, near)
	}
	if near := config.Nearest(name, Shipped()); near != "" && near != name {
		return fmt.Errorf("%s: did you mean %q? run flynn plugin install DIR for it", problem, near)
	}
	return fmt.Errorf("%s: run flynn plugin install DIR", problem)
}

// Installed returns nil if the lock names a plugin, it comes with Flynn or it is one of the others, and else an error that suggests a name.
func (s *Store) Installed(name string, others ...string) error {
	l, err := s.lock.Read()
	if err != nil {
		return err
	}
	if s.shelf().Has(firstparty.Plugins, name) && l.awaits(s.shelf(), name) {
		return s.shelf().Check(firstparty.Plugins, name)
	}
	if _, ok := l.choice(name); ok {
		return nil
	}
	return s.notInstalled(l, name, others...)
}
